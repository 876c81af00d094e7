"""`omnilearn run`: a manifest as local processes, with the coordinator, the law and the runtime of a cluster.

Values and decisions: faults, workers, restarts, ending, traces, audit, figures. At the edge: launcher, crew, limits,
minding, display. Nothing here is imported before somebody runs a job.
"""
