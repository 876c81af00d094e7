"""What a job becomes in the cluster: manifests as plain dictionaries, made by pure functions."""
