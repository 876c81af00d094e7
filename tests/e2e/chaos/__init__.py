"""Faults against a real job on real pods: see driver.py."""
