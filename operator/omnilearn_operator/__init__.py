"""The kopf operator: an OmniLearnJob becomes pods, and its status tells the truth.

May import the core, the coordinator, kopf and kubernetes; never torch. Nothing lives here yet.
"""
