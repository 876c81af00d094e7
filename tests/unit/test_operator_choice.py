"""What Auto has chosen, as the operator shows it and keeps it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from decisions import look
from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import Reason
from omnilearn_core.api.strategy import Choice, StrategyType
from omnilearn_operator.coordination import Coordinators
from omnilearn_operator.notes import of_happening
from omnilearn_operator.registry import Key, Registry
from omnilearn_operator.reign import Reign
from operations import NOW, job_of, member, pod, view_of

CHOICE = Choice(type=StrategyType.LOCAL_SGD, interval=8, why="an exchange takes 62% of a step")


def test_the_status_says_what_was_chosen_and_keeps_it_when_nobody_trains() -> None:
    view = view_of([member(0), member(1)], choice=CHOICE)
    first = look(job_of(), pod(0), pod(1), view=view)
    assert first.status is not None
    assert first.status.to_manifest()["strategy"] == {
        "type": "LocalSGD",
        "interval": 8,
        "why": "an exchange takes 62% of a step",
    }
    book = replace(first.book, status=first.status, written=None)
    suspended = look(job_of(suspend=True), book=book, now=NOW)
    assert suspended.status is not None
    assert suspended.status.strategy == CHOICE


def test_a_choice_is_an_event() -> None:
    note = of_happening(Happening(Kind.CHOSEN, "LocalSGD, because an exchange takes 62% of a step"))
    assert note is not None
    assert (note.reason, note.warning) == (Reason.STRATEGY_CHOSEN, False)


def test_a_new_operator_goes_on_with_what_the_status_says() -> None:
    spec: dict[str, Any] = {"strategy": {"type": "Auto"}}
    asked: OmniLearnJob = job_of(status={"strategy": CHOICE.to_manifest()}, **spec)

    async def play() -> Choice | None:
        made = Coordinators(Registry(), None, lambda *_: None, Reign(1, lambda: True))  # type: ignore[arg-type]
        key = Key("default", "job")
        await made.ensure(key, asked)
        seen = made.view(key)
        await made.stop_all()
        return None if seen is None else seen.choice

    assert asyncio.run(play()) == CHOICE
