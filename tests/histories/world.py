"""All of it together: what users, nodes and networks do, one thing after the other, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from copy import deepcopy
from typing import Any

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.validate import problems_of
from omnilearn_operator.api import ApiError, Manifest
from operations import job_of

from .clock import Clock
from .front import Front, Line
from .nodes import Nodes, Weather
from .operators import Operator
from .settling import unsettled
from .store import BAD_IMAGE, NAMESPACE, Store, is_over, owner_of, uid_of
from .training import Scripts
from .watching import Order, Wire
from .witness import Witness

_STEP_SECONDS, _LONGEST_SECONDS, _QUIET_SECONDS = 15.0, 300.0, 70.0
_GARBAGE_SECONDS = 2.0
_START_SECONDS = 2.0


class World:
    """A cluster with an operator in it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._loop = self.clock.loop()
        self.store = Store(self.clock)
        self.nodes = Nodes(self.store)
        self.scripts = Scripts(self.nodes)
        self.line, self.wire = Line(), Wire()
        self.witness = Witness(self.nodes, self.scripts, self.line)
        self.operator: Operator | None = None
        self._stack = ExitStack()
        self._stack.enter_context(self.clock.rules("omnilearn_operator.loop"))
        log = logging.getLogger("omnilearn_operator")
        log.addHandler(self.witness)
        log.propagate = False  # thousands of retries are told in a history
        self._stack.callback(setattr, log, "propagate", True)
        self._stack.callback(log.removeHandler, self.witness)
        self._stack.callback(self._loop.close)
        self.passes(0.0)

    def close(self) -> None:
        """End it."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._stack.close()

    # Time

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        until = self.clock.seconds + seconds
        while self.clock.seconds < until:
            self._loop.run_until_complete(asyncio.sleep(min(_GARBAGE_SECONDS, until - self.clock.seconds)))
            self._do(self.store.collect_garbage)

    def _do(self, act: Callable[[], Any]) -> None:
        async def acting() -> None:
            act()

        with suppress(ApiError, asyncio.CancelledError):
            self._loop.run_until_complete(acting())

    # Operators

    def starts(self) -> None:
        """Have an operator start, if there is none."""

        def start() -> None:
            def told(verb: str, what: Manifest) -> None:
                self.witness.hears(made, verb, what)

            made = Operator(self.clock, self.store, self.scripts, Front(self.store, self.line, told), self.wire)
            self.operator = made

        if self.operator is None:
            self.passes(_START_SECONDS)
            self._do(start)

    def dies(self) -> None:
        """Have the operator die, with all that it remembers."""
        if self.operator is not None:
            self._do(self.operator.die)
            self.operator = None
            self.witness.deaths += 1

    # Users

    def creates(self, name: str, replicas: int = 2, others: int = 0, **spec: Any) -> None:
        """Have a user create a job with a group of workers, and another one if ``others`` are wanted."""
        manifest = job_of(replicas, **spec, checkpoint={"claimName": "claim"}).to_manifest()
        if others:
            first = manifest["spec"]["workers"][0]
            manifest["spec"]["workers"].append(deepcopy(first) | {"name": "b", "replicas": others})
        metadata = {"name": name, "namespace": NAMESPACE}
        self._do(lambda: self.store.create(manifest | {"metadata": metadata}))

    def edits(self, name: str, change: Callable[[Manifest], None]) -> None:
        """Have a user change the spec of a job; a change that is refused is none."""
        found = self.store.job(name)
        if found is None:
            return
        after = deepcopy(found)
        change(after["spec"])
        if after["spec"] == found["spec"] or problems_of(after):
            return

        def put(job: Manifest) -> None:
            job["spec"] = after["spec"]
            job["metadata"]["generation"] += 1

        self._do(lambda: self.store.update(names.KIND, name, put))

    def deletes(self, name: str) -> None:
        """Have a user delete a job."""
        self._do(lambda: self.store.delete(names.KIND, name))

    def deletes_pod(self, number: int, *, force: bool = False, ended: bool = False) -> None:
        """Have a user delete a pod, one that has ended or one that has not."""
        self._with_pod(number, lambda pod: self.store.delete("Pod", pod["metadata"]["name"], force=force), over=ended)

    def finishes(self, name: str, *, fails_late: bool = False) -> None:
        """Have the script of a job come to its end."""
        found = self.store.job(name)
        if found is not None:
            script = self.scripts.of(uid_of(found))
            script.at_its_end, script.fails_late = True, fails_late

    # Nodes

    def _with_pod(self, number: int, act: Callable[[Manifest], Any], *, over: bool = False) -> None:
        pods = [pod for pod in self.store.pods() if is_over(pod) == over]
        if pods:
            self._do(lambda: act(pods[number % len(pods)]))

    def ends(self, number: int, code: int) -> None:
        self._with_pod(number, lambda pod: self.nodes.ends(pod, code))

    def evicts(self, number: int) -> None:
        self._with_pod(number, self.nodes.evict)

    def presses(self, number: int) -> None:
        self._with_pod(number, self.nodes.press)

    def loses(self, number: int) -> None:
        self._with_pod(number, self.nodes.lose)

    def silences(self, number: int) -> None:
        self._with_pod(number, self.nodes.silence)

    def hears(self, number: int) -> None:
        """Have a node come back that nobody has heard of."""
        pods = [pod for pod in self.store.pods() if uid_of(pod) in self.nodes.lost]
        if pods:
            self._do(lambda: self.nodes.hear(pods[number % len(pods)]))

    def threatens(self, number: int) -> None:
        """Mark a pod as one that will be taken away, and then do not."""
        self._with_pod(number, lambda pod: self.nodes.mark(pod, "PreemptionByScheduler"))
        self.passes(1.0)
        for pod in [
            each for each in self.store.pods() if is_over(each) and "deletionTimestamp" not in each["metadata"]
        ]:
            self._do(lambda pod=pod: self.nodes.mark(pod, "PreemptionByScheduler", "False"))  # type: ignore[misc]

    # Watches

    def holds(self) -> None:
        """Hold all news back."""
        self.wire.held = True

    def tells(self, order: Order) -> None:
        """Let the news go that was held back."""
        self.wire.held, self.wire.order = False, order
        self._arrive()
        self.wire.order = Order.RIGHT

    def _arrive(self) -> None:
        for watch in self.operator.watches if self.operator is not None else []:
            self._do(watch.arrive)

    def loses_watches(self) -> None:
        """Have the watches begin anew: what was on its way is lost."""
        self.wire.held = False
        for watch in self.operator.watches if self.operator is not None else []:
            self._do(watch.begin_anew)

    # The end of all faults

    def calms(self) -> None:
        """End all faults."""
        self.nodes.weather = Weather()
        self._do(self.nodes.find)
        self.line.away, self.line.seconds, self.line.troubles = False, 0.01, {}
        self.store.quota = None
        for job in self.store.every(names.KIND):
            self.edits(job["metadata"]["name"], _repair)
        self.tells(Order.RIGHT)
        self.starts()

    def settles(self) -> str:
        """Wait until all is as it should be; return what is not."""
        self.passes(_STEP_SECONDS)
        until = self.clock.seconds + _LONGEST_SECONDS
        while (why := unsettled(self.store, self.scripts)) and self.clock.seconds < until:
            self.passes(_STEP_SECONDS)
        return why

    def stays_quiet(self) -> str:
        """Return what is done though nothing has happened."""
        before = self.witness.writes.copy()
        self.passes(_QUIET_SECONDS)
        done = self.witness.writes - before
        return ", ".join(f"{count} × {what}" for what, count in done.items() if "Pod" in what)

    def jobs(self) -> list[OmniLearnJob]:
        return [OmniLearnJob.from_manifest(each) for each in self.store.every(names.KIND)]

    def pods(self, name: str) -> list[Manifest]:
        """Return the pods of a job."""
        found = self.store.job(name)
        return [] if found is None else [pod for pod in self.store.pods() if owner_of(pod) == uid_of(found)]


def _repair(spec: Manifest) -> None:
    for group in spec["workers"]:
        for container in group["template"]["spec"]["containers"]:
            if container["image"] == BAD_IMAGE:
                container["image"] = "repaired"
