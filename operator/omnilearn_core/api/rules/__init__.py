"""Rules over several fields, each declared once: its sentence, its CEL form and its Python form.

The CRD carries the CEL form, so that the API server refuses what `omnilearn validate` and a local run refuse, in the
same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnilearn_core.api.job import OmniLearnJob

from . import changes, local_steps, naming, numbers, strategies, templates
from .rule import Rule

RULES: tuple[Rule, ...] = (
    *naming.RULES, *numbers.RULES, *strategies.RULES, *local_steps.RULES, *templates.RULES, *changes.RULES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken rule: where, and the sentence."""

    path: str
    sentence: str


def check(job: OmniLearnJob) -> list[Breach]:
    """Return the rules that a job breaks."""
    return [
        breach
        for rule in RULES
        if not rule.on_change
        for path, part in _parts(job, rule.at)
        for breach in _breaches(rule, path, part)
    ]


def check_change(old: OmniLearnJob, new: OmniLearnJob) -> list[Breach]:
    """Return the rules that a change of a job breaks."""
    return [breach for rule in RULES if rule.on_change for breach in _breaches(rule, rule.at, old, new)]


def _breaches(rule: Rule, path: str, *parts: Any) -> Iterator[Breach]:
    values = rule.broken(*parts)
    if values is not None:
        yield Breach(".".join(step for step in (path, rule.field) if step), rule.sentence_of(values))


def _parts(job: OmniLearnJob, at: str) -> Iterator[tuple[str, Any]]:
    """Return the parts of a job at a path of the schema, each with its own path."""
    if at == "":
        yield "", job
    elif at == "spec":
        yield at, job.spec
    elif at == "spec.batch":
        yield at, job.spec.batch
    elif at == "spec.strategy":
        yield at, job.spec.strategy
    elif at in ("spec.strategy.hierarchical", "spec.strategy.localSGD"):
        strategy = job.spec.strategy
        options = strategy.local_sgd if at.endswith("localSGD") else strategy.hierarchical
        yield from [] if options is None else [(at, options)]
    elif at in ("spec.workers[]", "spec.workers[].template.spec"):
        for index, group in enumerate(job.spec.workers):
            path = at.replace("[]", f"[{index}]", 1)
            yield path, group.template.spec if at.endswith("template.spec") else group
    else:
        raise ValueError(f"a rule hangs at {at!r}, where no part of a job is known")
