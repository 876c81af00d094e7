"""The two ways in which there is no cluster."""

from __future__ import annotations


class ImpossibleError(Exception):
    """This machine can have no cluster; the sentence says why, and what would help."""


class FailedError(Exception):
    """There should be a cluster, and something went wrong; the sentence says what."""
