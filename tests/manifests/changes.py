"""Changes of a job that exists, and why those that are refused are."""

from __future__ import annotations

from omnilearn_core.api.validate import Problem

from .build import changed, container, group, manifest
from .cases import Change

_GPU = container(resources={"limits": {"nvidia.com/gpu": 1}})
_JOB = manifest(workers=[group("a", replicas=3), group("b")], membership={"minWorkers": 2, "maxWorkers": 4})
_A, _B = _JOB["spec"]["workers"]
_SAVED = changed(_JOB, "spec.checkpoint", {"claimName": "models"})


def _scaled(workers: int, *problems: Problem) -> Change:
    """Return what `kubectl scale --replicas` does."""
    return Change(_JOB, changed(_JOB, "spec.membership.maxWorkers", workers), problems)


def _elsewhere(before: str, after: str) -> Problem:
    return Problem(
        "spec.checkpoint.claimName",
        f"checkpoint.claimName cannot change (it is '{before}', not '{after}'): pods that run would save elsewhere than"
        " those that are to come; create another job",
    )


def _gone(name: str) -> Problem:
    sentence = f"group '{name}' cannot be removed or renamed: set its replicas to 0; other groups may be added"
    return Problem("spec.workers", sentence)


CHANGES: dict[str, Change] = {
    "nothing": Change(_JOB, _JOB),
    "law and limits of a share": Change(
        _JOB, changed(_JOB, "spec.batch", {"global": 64, "law": "Static", "maxPerWorker": 32})
    ),
    "more replicas": Change(_JOB, changed(_JOB, "spec.workers.0.replicas", 4)),
    "a group to zero": Change(_JOB, changed(_JOB, "spec.workers", [{**_A, "replicas": 4}, {**_B, "replicas": 0}])),
    "another group": Change(_JOB, changed(_JOB, "spec.workers", [_A, _B, group("c", _GPU, device="gpu")])),
    "another group in front": Change(_JOB, changed(_JOB, "spec.workers", [group("c"), _A, _B])),
    "groups in another order": Change(_JOB, changed(_JOB, "spec.workers", [_B, _A])),
    "device written out": Change(_JOB, changed(_JOB, "spec.workers.0.device", "cpu")),
    "another image": Change(_JOB, changed(_JOB, "spec.workers.0.template.spec.containers.0.image", "trainer:2")),
    "another global batch": Change(
        _JOB,
        changed(_JOB, "spec.batch.global", 128),
        (
            Problem(
                "spec.batch.global",
                "batch.global cannot change (it is 64, not 128): learning rate and progress depend on it;"
                " create another job",
            ),
        ),
    ),
    "another strategy": Change(
        changed(_JOB, "spec.strategy", {"type": "Asynchronous"}),
        _JOB,
        (
            Problem(
                "spec.strategy.type",
                "strategy.type cannot change (it is Asynchronous, not Synchronous): create another job",
            ),
        ),
    ),
    "other options of the same strategy": Change(
        changed(_JOB, "spec.strategy", {"type": "LocalSGD", "localSGD": {"batch": 8}}),
        changed(_JOB, "spec.strategy", {"type": "LocalSGD", "localSGD": {"batch": 16}}),
        (
            Problem(
                "spec.strategy.localSGD",
                "strategy.localSGD cannot change in a job that exists: create another job",
            ),
        ),
    ),
    "other options of asynchrony": Change(
        changed(_JOB, "spec.strategy", {"type": "Asynchronous", "asynchronous": {"staleness": "Ringleader"}}),
        changed(_JOB, "spec.strategy", {"type": "Asynchronous"}),
        (
            Problem(
                "spec.strategy.asynchronous",
                "strategy.asynchronous cannot change in a job that exists: create another job",
            ),
        ),
    ),
    "the same options": Change(
        changed(_JOB, "spec.strategy", {"type": "LocalSGD", "localSGD": {"batch": 8}}),
        changed(_JOB, "spec.strategy", {"type": "LocalSGD", "localSGD": {"batch": 8}}),
    ),
    "other options of groups": Change(
        changed(_JOB, "spec.strategy", {"type": "Hierarchical", "hierarchical": {"interval": 2}}),
        changed(_JOB, "spec.strategy", {"type": "Hierarchical"}),
        (
            Problem(
                "spec.strategy.hierarchical",
                "strategy.hierarchical cannot change in a job that exists: create another job",
            ),
        ),
    ),
    "another manager": Change(
        _JOB,
        changed(_JOB, "spec.managedBy", "example.com/queue"),
        (Problem("spec.managedBy", "managedBy cannot change (it is '', not 'example.com/queue'): create another job"),),
    ),
    "the same manager": Change(
        changed(_JOB, "spec.managedBy", "example.com/queue"), changed(_JOB, "spec.managedBy", "example.com/queue")
    ),
    "another claim": Change(
        _SAVED, changed(_SAVED, "spec.checkpoint.claimName", "others"), (_elsewhere("models", "others"),)
    ),
    "a checkpoint that there was not": Change(_JOB, _SAVED, (_elsewhere("", "models"),)),
    "no checkpoint any more": Change(_SAVED, _JOB, (_elsewhere("models", ""),)),
    "checkpoints more often": Change(
        _SAVED, changed(_SAVED, "spec.checkpoint", {"claimName": "models", "everySeconds": 5, "keep": 9})
    ),
    "another gang scheduler": Change(
        _JOB,
        changed(_JOB, "spec.gangScheduler", "volcano"),
        (
            Problem(
                "spec.gangScheduler",
                "gangScheduler cannot change (it is none, not volcano): pods that are there have another scheduler;"
                " create another job",
            ),
        ),
    ),
    "the gang scheduler written out": Change(_JOB, changed(_JOB, "spec.gangScheduler", "none")),
    "a group removed": Change(_JOB, changed(_JOB, "spec.workers", [{**_A, "replicas": 4}]), (_gone("b"),)),
    "a group renamed": Change(_JOB, changed(_JOB, "spec.workers.0.name", "c"), (_gone("a"),)),
    "another device": Change(
        _JOB,
        changed(_JOB, "spec.workers", [_A, group("b", _GPU, device="gpu")]),
        (Problem("spec.workers", "the device of group 'b' cannot change (it is cpu, not gpu): add another group"),),
    ),
    "scaled to all replicas": _scaled(5),
    "scaled to minWorkers": _scaled(2),
    "scaled below minWorkers": _scaled(
        1,
        Problem(
            "spec.membership.minWorkers",
            "membership.minWorkers is 2, above maxWorkers 1: lower minWorkers or raise maxWorkers",
        ),
    ),
    "scaled above all replicas": _scaled(
        6,
        Problem(
            "spec.membership.maxWorkers",
            "membership.maxWorkers is 6, but all groups together have 5 replicas: lower maxWorkers or raise replicas",
        ),
    ),
}
