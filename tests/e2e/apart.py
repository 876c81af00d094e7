"""A job that an operator beside the cluster minds, behind the faulty proxy; real pods train all the while."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from .beside import Beside, beside
from .jobs import group, job
from .kube import Kube, is_over

JOB = "digits"


@contextmanager
def minded_apart(kube: Kube, folder: Path) -> Iterator[Beside]:
    """Have a job of two workers, which trains for long and may have three, minded by an operator behind the proxy."""
    if kube.cluster.provider != "node":
        pytest.skip("only where this machine is the node do pods reach a process on it")
    with beside(kube, folder) as made:
        trainers = group("a", "400m", replicas=3, EPOCHS="4000", WIDTH="16")
        trainers["template"]["spec"]["terminationGracePeriodSeconds"] = 5
        kube.apply(job(JOB, trainers, membership={"maxWorkers": 2}))
        kube.until("two train", lambda: whole(kube), 120)
        yield made


class Kept(NamedTuple):
    """What must be the same afterwards."""

    generation: int
    pods: dict[str, str]
    failures: int
    preemptions: int


def kept(kube: Kube) -> Kept:
    status = kube.status(JOB)
    return Kept(status["generation"], live(kube), status["workers"]["failures"], status["workers"]["preemptions"])


def live(kube: Kube) -> dict[str, str]:
    """Return the UIDs of the pods that are there to stay, by name."""
    pods = [pod["metadata"] for pod in kube.pods(JOB) if not is_over(pod)]
    return {each["name"]: each["uid"] for each in pods}


def whole(kube: Kube) -> bool:
    """Tell whether two pods train together, and no other is there."""
    return len(live(kube)) == len(kube.trainers(JOB)) == 2


def both_train(it: Beside) -> None:
    it.kube.until("two train", lambda: whole(it.kube), 60)


def epoch(kube: Kube) -> int:
    """Return the newest epoch that the workers tell of themselves: no operator and no proxy is asked."""
    logs = "".join(kube.run("logs", name, "--tail=1") for name in live(kube))
    return max(map(int, re.findall(r"epoch +(\d+) of", logs)), default=0)


def kill(kube: Kube) -> str:
    """Delete a pod by force, one that trains; return its name."""
    name = min(live(kube))
    kube.run("delete", "pod", name, "--grace-period=0", "--force")
    return name


def next_of(pod: str) -> str:
    worker, _, attempt = pod.rpartition("-")
    return f"{worker}-{int(attempt) + 1}"
