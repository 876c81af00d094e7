"""The `omnilearn` command: validate a manifest, try it on a simulated cluster, print the CRD."""
