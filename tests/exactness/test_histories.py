"""Whatever happens to the workers, the parameters are those of one process, and bit-equal on all members."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crew import Crew, Worker, await_joiner, force_plan
from omnilearn_runtime import Session
from omnilearn_runtime.link import RefusedError
from plain import BATCH, EXPLORE, Recipe, as_script, distance, train

RECIPE = Recipe(epochs=3)
EXPECTED = train(RECIPE)
POINTS = (
    "joined", "roll-call", "healing", "healed", "entered", "computing", "first-bucket", "reducing", "before-update",
    "after-update", "switching", "claimed",
)  # fmt: skip
RELAXED = settings(
    max_examples=40 * EXPLORE,
    deadline=None,
    derandomize=EXPLORE == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)

faults = st.builds(
    lambda point, round_, deed: f"{point}@{round_}:{deed}",
    st.sampled_from(POINTS),
    st.integers(0, RECIPE.steps - 1),
    st.sampled_from(["kill", "kill", "terminate"]),
)


@dataclass
class History:
    """What happens in a run: shares drawn anew for every step, and joiners that come at given steps."""

    seed: int
    joiners: dict[int, str]
    """By step: the faults of the joiner that comes then."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()
        self.crew: Crew | None = None

    def on_batch(self, session: Session, me: Worker) -> None:
        shares = [self._random.choice([0, 0, 1, 2, 3, 5, BATCH]) for _ in range(4)]
        force_plan(session, shares, self._random.choice([0, 1, BATCH // 4, BATCH // 2]))
        if session.is_lead:
            self._let_join(session)

    def _let_join(self, session: Session) -> None:
        with self._lock:
            due = [step for step in self.joiners if session.step_number >= step]
            faults = [self.joiners.pop(step) for step in due]
        if not faults:
            return
        assert self.crew is not None
        for each in faults:
            self.crew.start(len(self.crew.workers), each)
        await_joiner(session, 2.0)


def play(history: History, initial: dict[int, str], folder: Path | None = None) -> list[Worker]:
    with Crew(as_script(RECIPE, history.on_batch), len(initial), batch=BATCH, start_wait=0.2) as crew:
        history.crew, crew.checkpoints = crew, folder
        for number, each in initial.items():
            crew.start(number, each)
        return crew.wait()


def check(workers: list[Worker]) -> None:
    finished = [worker for worker in workers if worker.error is None]
    strange = [worker.error for worker in workers if not isinstance(worker.error, SystemExit | RefusedError | None)]
    assert not strange
    assert finished
    for worker in finished:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert (progress.step, progress.samples) == (RECIPE.steps, RECIPE.epochs * len(RECIPE.dataset))
        assert (progress.lost, progress.doubled, progress.skipped) == (0, 0, 0)
        assert torch.equal(worker.value, finished[0].value)
    assert distance(finished[0].value, EXPECTED) < 1e-10


@RELAXED
@given(
    count=st.integers(1, 4),
    survivor=st.integers(0, 3),
    struck=st.dictionaries(st.integers(0, 3), faults, max_size=3),
    joiners=st.dictionaries(st.integers(0, RECIPE.steps - 3), st.one_of(st.just(""), faults), max_size=2),
    seed=st.integers(0, 2**16),
)
def test_any_history_equals_one_process(
    count: int, survivor: int, struck: dict[int, str], joiners: dict[int, str], seed: int
) -> None:
    initial = {i: struck.get(i, "") if i != survivor % count else "" for i in range(count)}
    check(play(History(seed, dict(joiners)), initial))


@settings(RELAXED, max_examples=12 * EXPLORE)
@given(
    before=st.integers(1, 3),
    after=st.integers(1, 3),
    point=st.sampled_from(["computing", "reducing", "before-update", "after-update"]),
    rounds=st.lists(st.integers(3, RECIPE.steps), min_size=3, max_size=3),
    seed=st.integers(0, 2**16),
)
def test_a_job_whose_workers_all_died_goes_on_from_its_checkpoint_on_another_number_of_workers(
    before: int, after: int, point: str, rounds: list[int], seed: int
) -> None:
    with TemporaryDirectory() as folder:
        died = play(History(seed, {}), {i: f"{point}@{rounds[i]}:kill" for i in range(before)}, Path(folder))
        assert all(worker.error is not None for worker in died)
        check(play(History(seed, {}), dict.fromkeys(range(after), ""), Path(folder)))
