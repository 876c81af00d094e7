"""Faults by the hundred, against real workers: see driver.py."""
