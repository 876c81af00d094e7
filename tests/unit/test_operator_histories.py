"""Whatever happens to pods, watches, the API and the operator, in whatever order: a job gets what it should have.

`HISTORIES=10000 pytest tests/unit/test_operator_histories.py` tries so many histories, and others every time. A failure
names the seed; `SEED=… HISTORIES=…` with the same numbers tries the same ones again.
"""

from __future__ import annotations

import os
import secrets

from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from histories import World
from histories.front import Trouble
from histories.store import BAD_IMAGE
from histories.watching import Order
from omnilearn_operator.api import Manifest

_GIVEN = os.environ.get("HISTORIES")
_SEED = int(os.environ.get("SEED") or secrets.randbelow(2**32))
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

jobs = st.sampled_from(["job", "job", "job", "other"])
groups = st.sampled_from([0, 0, -1])
pods = st.integers(0, 5)
seconds = st.sampled_from([0.005, 0.05, 0.3, 1.0, 2.0, 5.0, 12.0, 40.0, 70.0])
codes = st.sampled_from([0, 1, 75, 137, 143])
verbs = st.sampled_from(["create", "try", "status", "delete", "patch", "list", "get", "Service"])
images = st.sampled_from(["i", "next", "newest", BAD_IMAGE])


class Histories(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        if _GIVEN:
            note(f"again: SEED={_SEED} HISTORIES={_GIVEN}")
        self.world = World()
        self.world.starts()

    @initialize(replicas=st.integers(1, 3), others=st.integers(0, 2), failures=st.sampled_from([0, 2, 50]))
    def begins(self, replicas: int, others: int, failures: int) -> None:
        self.world.creates("job", replicas=replicas, others=others, restart={"maxFailures": failures})

    @rule(seconds=seconds)
    def passes(self, seconds: float) -> None:
        self.world.passes(seconds)

    # Most things take a while to have an effect: time passes more often than anything else.

    @rule()
    def blinks(self) -> None:
        self.world.passes(0.05)

    @rule()
    def waits(self) -> None:
        self.world.passes(3.0)

    @rule()
    def rests(self) -> None:
        self.world.passes(20.0)

    # Users

    @rule(name=jobs, replicas=st.integers(1, 3), clean=st.sampled_from(["Running", "All", "None"]))
    def creates(self, name: str, replicas: int, clean: str) -> None:
        self.world.creates(name, replicas=replicas, cleanPods=clean, restart={"maxFailures": 3})

    @rule(name=jobs)
    def deletes(self, name: str) -> None:
        self.world.deletes(name)

    @rule(name=jobs, group=groups, replicas=st.integers(0, 4))
    def scales(self, name: str, group: int, replicas: int) -> None:
        self.world.edits(name, lambda spec: spec["workers"][group].update(replicas=replicas))

    @rule(name=jobs, group=groups, least=st.integers(0, 2))
    def needs(self, name: str, group: int, least: int) -> None:
        self.world.edits(name, lambda spec: spec["workers"][group].update(minReplicas=least))

    @rule(name=jobs, most=st.integers(1, 4))
    def caps(self, name: str, most: int) -> None:
        self.world.edits(name, lambda spec: spec["membership"].update(maxWorkers=most))

    @rule(name=jobs, suspend=st.booleans())
    def suspends(self, name: str, suspend: bool) -> None:
        self.world.edits(name, lambda spec: spec.update(suspend=suspend))

    @rule(name=jobs, group=groups, image=images)
    def changes_template(self, name: str, group: int, image: str) -> None:
        def change(spec: Manifest) -> None:
            spec["workers"][group]["template"]["spec"]["containers"][0]["image"] = image

        self.world.edits(name, change)

    @rule(name=jobs, image=st.sampled_from(["next", "newest"]))
    def rolls_out(self, name: str, image: str) -> None:
        self.world.passes(20.0)
        self.changes_template(name, 0, image)

    @rule(number=pods, force=st.booleans(), ended=st.booleans())
    def deletes_pod(self, number: int, force: bool, ended: bool) -> None:
        self.world.deletes_pod(number, force=force, ended=ended)

    @rule(name=jobs, fails_late=st.booleans())
    def finishes(self, name: str, fails_late: bool) -> None:
        self.world.finishes(name, fails_late=fails_late)

    # Nodes

    @rule(number=pods, code=codes)
    def ends(self, number: int, code: int) -> None:
        self.world.ends(number, code)

    @rule(number=pods, how=st.sampled_from(["evicts", "presses", "loses", "threatens"]))
    def takes(self, number: int, how: str) -> None:
        getattr(self.world, how)(number)

    @rule(number=pods, back=st.booleans())
    def silences(self, number: int, back: bool) -> None:
        (self.world.hears if back else self.world.silences)(number)

    @rule(what=st.sampled_from(["image_is_missing", "is_full", "rejects"]), is_so=st.booleans())
    def weather(self, what: str, is_so: bool) -> None:
        setattr(self.world.nodes.weather, what, is_so)

    @rule(code=st.none() | codes)
    def crashes(self, code: int | None) -> None:
        self.world.nodes.weather.crash = code

    @rule(code=codes, slowly=st.sampled_from([0.1, 1.0, 20.0, 40.0]))
    def goes(self, code: int, slowly: float) -> None:
        self.world.nodes.weather.last_code, self.world.nodes.weather.last_seconds = code, slowly

    @rule(skew=st.sampled_from([0.0, -3600.0, 3600.0]))
    def skews(self, skew: float) -> None:
        self.world.nodes.weather.skew = skew

    @rule(quota=st.none() | st.integers(0, 3))
    def limits(self, quota: int | None) -> None:
        self.world.store.quota = quota

    # The operator and its API

    @rule()
    def dies(self) -> None:
        self.world.dies()

    @precondition(lambda self: self.world.operator is None)
    @rule()
    def starts(self) -> None:
        self.world.starts()

    @rule(
        verb=verbs,
        how=st.sampled_from(Trouble),
        status=st.sampled_from([0, 409, 410, 429, 500]),
        times=st.integers(1, 6),
    )
    def troubles(self, verb: str, how: Trouble, status: int, times: int) -> None:
        self.world.line.troubles[verb] = how, status, times

    @rule(away=st.booleans())
    def goes_away(self, away: bool) -> None:
        self.world.line.away = away

    @rule(slow=st.sampled_from([0.01, 0.01, 1.0, 8.0, 30.0]))
    def is_slow(self, slow: float) -> None:
        self.world.line.seconds = slow

    @rule(late=st.sampled_from([0.02, 0.5, 5.0]))
    def is_late(self, late: float) -> None:
        self.world.wire.seconds = late

    @rule()
    def holds(self) -> None:
        self.world.holds()

    @precondition(lambda self: self.world.wire.held)
    @rule(order=st.sampled_from(Order))
    def tells(self, order: Order) -> None:
        self.world.tells(order)

    @rule()
    def loses_watches(self) -> None:
        self.world.loses_watches()

    @invariant()
    def nothing_forbidden_has_happened(self) -> None:
        assert self.world.witness.violations == []

    def teardown(self) -> None:
        try:
            if not self.world.witness.violations:
                self.world.calms()
                assert self.world.settles() == ""
                assert self.world.stays_quiet() == ""
                assert self.world.witness.uncounted() == ""
                self.nothing_forbidden_has_happened()
        finally:
            self.world.close()


Histories.TestCase.settings = settings(
    max_examples=int(_GIVEN or 80),
    stateful_step_count=40,
    deadline=None,
    derandomize=_GIVEN is None,
    database=None,
    suppress_health_check=_SLOW,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)
TestHistories = (seed(_SEED)(Histories) if _GIVEN else Histories).TestCase
