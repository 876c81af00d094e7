"""A good manifest, as a plain dict, to be changed in one place."""

from __future__ import annotations

import copy
from typing import Any, Final

Manifest = dict[str, Any]

ABSENT: Final = object()
"""Stands for a field that is to be left out."""


def container(name: str = "trainer", /, **changes: Any) -> Manifest:
    """Return a container that trains."""
    return {"name": name, "image": "trainer:1", "command": ["python", "train.py"], **changes}


def group(name: str = "cpu", /, *containers: Manifest, **changes: Any) -> Manifest:
    """Return a group of two workers."""
    pod = {"containers": list(containers) or [container()]}
    return {"name": name, "replicas": 2, "template": {"spec": pod}, **changes}


def manifest(name: str = "job", /, **spec: Any) -> Manifest:
    """Return a job that is as small as a job can be; ``spec`` replaces or adds fields of its spec."""
    return {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {"name": name},
        "spec": {"batch": {"global": 64}, "workers": [group()], **spec},
    }


def changed(base: Manifest, path: str, value: Any) -> Manifest:
    """Return a copy in which the field at ``path`` (``spec.workers.0.name``) is ``value``, or is not, if ABSENT."""
    result = copy.deepcopy(base)
    *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    part: Any = result
    for step in above:
        part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
    if value is ABSENT:
        del part[last]
    else:
        part[last] = value
    return result
