"""The kopf operator: an OmniLearnJob becomes pods, and its status tells the truth.

`reconcile.decide` is where a job's fate is decided; `loop`, `executor` and `handlers` carry things to and fro. May
import the core, the coordinator, kopf and kubernetes; never torch.
"""
