"""Membership, reports and plans: the one authority of a job's generations, inside the operator or a local run.

May import the core and aiohttp; knows nothing of Kubernetes. Nothing lives here yet.
"""
