"""Membership, reports and plans: the one authority of a job's generations, inside the operator or a local run.

May import the core, aiohttp and prometheus_client; knows nothing of Kubernetes.
"""
