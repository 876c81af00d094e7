"""A job, its pods and a Kubernetes API in memory, for tests of the operator."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from omnilearn_coordinator.membership.state import Outcome
from omnilearn_coordinator.view import JobView, MemberState, MemberView, Phase, TimedDecision
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.messages import Done, GenerationId
from omnilearn_operator.api import ApiError, Manifest
from omnilearn_operator.manifests.pods import template_hash
from omnilearn_operator.observed import Pod

CREATED = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
NOW = datetime(2026, 11, 16, 10, 1, tzinfo=UTC)


def job_of(replicas: int = 2, *, status: dict[str, Any] | None = None, **spec: Any) -> OmniLearnJob:
    template = {"spec": {"containers": [{"name": "trainer", "image": "i"}]}}
    manifest = {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {
            "name": "job",
            "namespace": "team",
            "uid": "job-uid",
            "generation": 1,
            "creationTimestamp": "2026-11-16T10:00:00Z",
        },
        "spec": {
            "batch": {"global": 64},
            "workers": [{"name": "a", "replicas": replicas, "template": template}],
            **spec,
        },
    }
    return OmniLearnJob.from_manifest(manifest | ({"status": status} if status else {}))


def pod(index: int = 0, attempt: int = 0, **changes: Any) -> Pod:
    worker = f"job-a-{index}"
    hash_ = template_hash(job_of().spec.workers[0])
    made = Pod(f"{worker}-{attempt}", f"uid-{index}-{attempt}", worker, attempt, hash_, running=True, owner="job-uid")
    return replace(made, **changes)


def member(index: int = 0, share: int = 32, **changes: Any) -> MemberView:
    made = MemberView(
        f"job-a-{index}",
        "cpu",
        0,
        MemberState.TRAINING,
        share=share,
        samples_per_second=100.0,
        compute_seconds=0.5,
        step_seconds=0.6,
    )
    return replace(made, **changes)


def view_of(members: Iterable[MemberView] = (), **changes: Any) -> JobView:
    everybody = tuple(members)
    made = JobView(
        job="job",
        phase=Phase.RUNNING if everybody else Phase.WAITING,
        generation=3 if everybody else None,
        plan=2 if everybody else None,
        members=everybody,
        joiners=(),
        waiting=None,
        regroups=0,
        plan_changes=0,
        bad_requests={},
        decisions=(),
        outcome=None,
        step=7 if everybody else 0,
        rounds=9 if everybody else 0,
        samples=448 if everybody else 0,
        total_samples=1000 if everybody else None,
    )
    return replace(made, **changes)


def completed(*workers: str) -> Outcome:
    done = Done(
        generation=GenerationId(number=3, nonce="n"),
        round=9,
        steps=9,
        samples=576,
        lost=0,
        doubled=0,
        parameter_hash="h",
    )
    return Outcome(True, "the script has come to its end on all 2 members", dict.fromkeys(workers, done))


def decided(seconds_ago: float) -> TimedDecision:
    return TimedDecision(NOW.timestamp() - seconds_ago, "job-a-0 32→40")


class MemoryApi:
    """A Kubernetes API in memory: what it was asked is kept; ``answers`` are errors by verb and kind."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.answers: dict[tuple[str, str], ApiError] = {}
        self._uids = itertools.count(1)

    def _note(self, verb: str, kind: str, name: str) -> None:
        self.calls.append((verb, kind, name))
        if (error := self.answers.get((verb, kind))) is not None:
            raise error

    def did(self, verb: str, kind: str) -> list[str]:
        return [name for done, what, name in self.calls if (done, what) == (verb, kind)]

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        self._note("get", kind, name)
        if (kind, name) not in self.objects:
            raise ApiError(404, "NotFound", f"{name} is not there")
        return deepcopy(self.objects[kind, name])

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        self._note("list", kind, selector)
        items = [deepcopy(found) for (what, _), found in self.objects.items() if what == kind]
        return {"metadata": {"resourceVersion": "1"}, "items": items}

    async def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        yield await self.every(kind, namespace, selector)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        kind, name = manifest["kind"], manifest.get("metadata", {}).get("name", "")
        self._note("try" if dry_run else "create", kind, name)
        made = deepcopy(manifest)
        made.setdefault("metadata", {})["uid"] = f"u{next(self._uids)}"
        if not dry_run:
            if (kind, name) in self.objects:
                raise ApiError(409, "AlreadyExists", f"{name} is there already")
            self.objects[kind, name] = made
        return deepcopy(made)

    async def apply(self, manifest: Manifest) -> Manifest:
        self._note("apply", manifest["kind"], manifest["metadata"]["name"])
        self.objects[manifest["kind"], manifest["metadata"]["name"]] = deepcopy(manifest)
        return manifest

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        self._note("status" if status else "patch", kind, name)
        found = self.objects.get((kind, name))
        if found is None:
            raise ApiError(404, "NotFound", f"{name} is not there")
        merge(found, body)
        return deepcopy(found)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self._note("delete", kind, name)
        self.objects.pop((kind, name), None)


def merge(into: Manifest, change: Manifest) -> None:
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
