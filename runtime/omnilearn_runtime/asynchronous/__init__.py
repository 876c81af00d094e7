"""Asynchronous training: a server in the first worker applies gradients as they come, and nobody waits for others."""
