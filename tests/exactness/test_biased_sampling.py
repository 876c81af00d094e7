"""Biased sampling over a whole run is what a plain, sequential version of it chooses, and its uses are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from crew import Crew, Worker, force_plan
from local_steps import Diary, committed, load, mean
from omnilearn_cli.local.traces import merge, read_traces
from omnilearn_cli.local.uses import uses_of
from omnilearn_core.api.strategy import HardSamples, LocalSGD, Sampling, Strategy, StrategyType
from omnilearn_runtime import Session
from omnilearn_runtime.division import Place
from omnilearn_runtime.ledger import epoch_order
from plain import Recipe, distance, flat, mlp, samples

BATCH, LOCAL, RATE, RATIO = 16, 2, 0.05, 3
RECIPE = Recipe(dataset=samples(76), optimizer=lambda parameters: SGD(parameters, lr=RATE), epochs=40, batch=BATCH)
SIZE = len(RECIPE.dataset)


def losses(model: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return one loss for each sample."""
    found: Tensor = model(x)
    return (found - y).pow(2).mean(1)


@dataclass
class Places:
    """Where each worker stood when a pass began."""

    seen: dict[int, dict[str, Place]] = field(default_factory=dict)

    def follow(self, session: Session, me: Worker) -> None:
        learner = session._rounds.learner
        tell = learner.order

        def order(order: Tensor, pass_: int, place: Place) -> Tensor:
            self.seen.setdefault(pass_, {})[f"{me.name}.{me.attempt}"] = place
            return tell(order, pass_, place)

        learner.order = order  # type: ignore[method-assign]


def play(who: HardSamples, traces: Path, fault: str = "") -> tuple[list[Worker], Diary, Places]:
    diary, places = Diary(), Places()

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, _ = RECIPE.parts()
        session.manage(model, optimizer)
        diary.follow(session, me)
        places.follow(session, me)
        for _ in session.epochs(RECIPE.epochs):
            for x, y in session.batches(RECIPE.dataset):
                force_plan(session, [LOCAL, 2 * LOCAL])
                diary.note(session, me)
                session.step(losses(model, x, y))
        return flat(model)

    options = LocalSGD(batch=LOCAL, sampling=Sampling.LOSS_BIASED, hard_samples=who, hard_ratio=RATIO)
    strategy = Strategy(type=StrategyType.LOCAL_SGD, local_sgd=options)
    with Crew(script, 3, batch=BATCH, strategy=strategy, tail_percent=0) as crew:
        crew.traces = traces
        for number in range(3):
            crew.start(number, fault if number == 2 else "")
        return crew.wait(), diary, places


def chosen(order: Sequence[int], scores: Mapping[int, float], pass_: int, place: Place, who: HardSamples) -> list[int]:
    """Return which sample a worker has at each position: of some that are drawn, the hardest, dealt in turn."""
    batch, shares, rank = place
    mean_share = sum(shares) / max(1, len(shares))
    slow = [i for i, share in enumerate(shares) if 0 < share < mean_share]
    fast = [i for i, share in enumerate(shares) if share > mean_share]
    hard = slow if who is HardSamples.SLOW else fast
    if rank not in hard:
        return list(order)
    wanted = sum(shares[i] for i in hard)
    count = SIZE * wanted // sum(shares)
    draw = torch.Generator().manual_seed(pass_)
    drawn = [order[i] for i in torch.randperm(SIZE, generator=draw).tolist()[: min(SIZE, RATIO * count)]]
    best = sorted(drawn, key=lambda sample: -scores[sample])[:count]
    dealt = [best[i] for i in torch.randperm(count, generator=draw).tolist()]
    mine = list(order)
    for position in range(SIZE):
        round_, offset = divmod(position, batch)
        owner = next(i for i in range(len(shares)) if offset < sum(shares[: i + 1]))
        if owner == rank:
            before = sum(shares[i] for i in hard if i < rank)
            mine[position] = dealt[(round_ * wanted + before + offset - sum(shares[:rank])) % count]
    return mine


def replay(diary: Diary, places: Places, who: HardSamples) -> tuple[Tensor, Counter[int]]:
    """Return the parameters at the end, and how often each sample was used."""
    model = mlp()
    merged = [each.detach().clone() for each in model.parameters()]
    scores, uses = dict.fromkeys(range(SIZE), torch.inf), Counter[int]()
    rounds = -(-SIZE // BATCH)
    for pass_ in range(RECIPE.epochs):
        order = epoch_order(SIZE, 0, pass_, True).tolist()
        orders = {name: chosen(order, scores, pass_, place, who) for name, place in places.seen[pass_].items()}
        seen: dict[int, list[float]] = {}
        for at in range(rounds):
            parts = committed(diary, pass_ * rounds + at, min(BATCH, SIZE - at * BATCH))
            models, weights = [], []
            for name, steps in parts.items():
                load(model, merged)
                for step in steps:
                    used = [orders[name][position] for position in step]
                    uses.update(used)
                    found = losses(model, *(each[used] for each in RECIPE.dataset.tensors))
                    for sample, loss in zip(used, found.tolist(), strict=True):
                        seen.setdefault(sample, []).append(loss)
                    _take(model, found.mean())
                models.append([each.detach().clone() for each in model.parameters()])
                weights.append(float(len(steps)))
            merged = mean(models, weights)
        scores |= {sample: sum(each) / len(each) for sample, each in seen.items()}
    load(model, merged)
    return flat(model), uses


def _take(model: torch.nn.Module, loss: Tensor) -> None:
    found = torch.autograd.grad(loss, list(model.parameters()))
    load(model, [each - RATE * change for each, change in zip(model.parameters(), found, strict=True)])


@pytest.mark.parametrize("who", list(HardSamples))
def test_two_hundred_rounds_use_the_samples_that_the_plain_version_chooses(who: HardSamples, tmp_path: Path) -> None:
    workers, diary, places = play(who, tmp_path)
    plain, uses = replay(diary, places, who)
    assert distance(workers[0].value, plain) < 1e-10
    (session,) = {each.session for each in workers[:1]}
    assert session is not None
    logged = session._reporter.logged
    assert logged["most_uses_of_a_sample"] == max(uses.values())
    assert logged["unused_samples"] == SIZE - len(uses)
    assert uses_of(merge(read_traces(tmp_path)[0])) == [uses[sample] for sample in range(SIZE)]
    assert min(uses.values()) < RECIPE.epochs < max(uses.values()), "the bias is one"


def test_a_worker_that_is_lost_costs_no_position_of_a_pass(tmp_path: Path) -> None:
    workers, _, _ = play(HardSamples.SLOW, tmp_path, "reducing@7:kill")
    (progress, *others) = [each.session._rounds.progress for each in workers if each.error is None and each.session]
    assert (progress.lost, progress.doubled, progress.samples) == (0, 0, RECIPE.epochs * SIZE)
    assert others == [progress]
