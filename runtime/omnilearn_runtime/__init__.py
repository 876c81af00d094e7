"""What runs beside the user's script: session, elastic group, sampler, gradients, reports.

May import the core and torch; never kopf or kubernetes. Nothing lives here yet.
"""
