"""Pods on nodes that are not ready: whether they train, their workers' connections tell. Pure.

Of a node that is gone the cluster gives up the pods after minutes. Where only its kubelet is away, they train on.
"""

from __future__ import annotations

from dataclasses import replace

from omnilearn_coordinator.view import JobView, MemberState

from .observed import Pod
from .status import Seen

_WHY = "NodeNotReady"


def without_lost(seen: Seen) -> Seen:
    """Return what is seen with those pods taken away of which neither their node nor their worker is heard.

    Only if other workers of the job are heard: else it may be us who are cut off.
    """
    view = seen.view
    if view is None or view.generation is None or not any(pod.unheard for pod in seen.pods):
        return seen
    heard = _heard(view)
    if not heard:
        return seen
    pods = tuple(replace(pod, disrupted=_WHY) if _is_lost(pod, heard) else pod for pod in seen.pods)
    return replace(seen, pods=pods)


def _heard(view: JobView) -> frozenset[tuple[str, int | None]]:
    """Return who is connected, each with its attempt; of those who wait to join it is not known."""
    members = {(each.worker, each.attempt) for each in view.members if each.state is not MemberState.LOST}
    return frozenset({*members, *((name, None) for name in view.joiners)})


def _is_lost(pod: Pod, heard: frozenset[tuple[str, int | None]]) -> bool:
    silent = (pod.worker, pod.attempt) not in heard and (pod.worker, None) not in heard
    return pod.unheard and silent and not pod.over
