"""The API: what users write, what the cluster shows, and what workers and coordinator say to each other."""
