"""Rules about names: pods and a Service are called after jobs and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnilearn_core.api.job import JobSpec, OmniLearnJob, WorkerGroup
from omnilearn_core.api.names import JOB_AND_GROUP_LENGTH

from .rule import Rule, Values

_JOB_NAME = "[a-z]([-a-z0-9]*[a-z0-9])?"
_GROUP_NAME = "[a-z][a-z0-9]*"

# CEL, written for the part that a rule is about. Every list is bounded, or its cost would be refused.
_ROOM = f"({JOB_AND_GROUP_LENGTH} - size(self.metadata.name))"
_LONG = f"self.spec.workers.filter(g, size(g.name) > {_ROOM})"


def _job_name_is_no_label(job: OmniLearnJob) -> Values | None:
    return None if re.fullmatch(_JOB_NAME, job.metadata.name) else (job.metadata.name,)


def _names_too_long(job: OmniLearnJob) -> Values | None:
    name = job.metadata.name
    group = next((g.name for g in job.spec.workers if len(name) + len(g.name) > JOB_AND_GROUP_LENGTH), None)
    return None if group is None else (name, group, len(name) + len(group), JOB_AND_GROUP_LENGTH)


def _group_name_is_bad(group: WorkerGroup) -> Values | None:
    return None if re.fullmatch(_GROUP_NAME, group.name) else (group.name,)


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _group_name_is_taken(spec: JobSpec) -> Values | None:
    name = _twice([group.name for group in spec.workers])
    return None if name is None else (name,)


RULES: tuple[Rule, ...] = (
    Rule(
        at="",
        field="metadata.name",
        sentence="metadata.name is '%s': use lower-case letters, digits and hyphens, beginning with a letter and"
        " without dots, because pods and a Service are named after it",
        cel=f"self.metadata.name.matches('^{_JOB_NAME}$')",
        values=("self.metadata.name",),
        broken=_job_name_is_no_label,
    ),
    Rule(
        at="",
        field="metadata.name",
        sentence="metadata.name '%s' and the group name '%s' have %d characters together, but pods are called"
        " <job>-<group>-<index>-<attempt> and leave room for %d: shorten one of them",
        cel=f"size({_LONG}) == 0",
        values=(
            "self.metadata.name",
            f"{_LONG}[0].name",
            f"size(self.metadata.name) + size({_LONG}[0].name)",
            str(JOB_AND_GROUP_LENGTH),
        ),
        broken=_names_too_long,
    ),
    Rule(
        at="spec.workers[]",
        field="name",
        sentence="the group name is '%s': use lower-case letters and digits, beginning with a letter and without"
        " hyphens, so that names of pods cannot collide",
        cel=f"self.name.matches('^{_GROUP_NAME}$')",
        values=("self.name",),
        broken=_group_name_is_bad,
    ),
    Rule(
        at="spec",
        field="workers",
        sentence="the group name '%s' is used twice in workers: give every group a name of its own",
        cel="self.workers.all(g, self.workers.exists_one(h, h.name == g.name))",
        values=("self.workers.filter(g, !self.workers.exists_one(h, h.name == g.name))[0].name",),
        broken=_group_name_is_taken,
    ),
)
