"""Who gets how many samples: numbers in, numbers out. No clock, no randomness, no I/O."""
