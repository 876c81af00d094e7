"""Hierarchical training written down plainly: one process replays, round by round, which team took which steps."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from crew import Script, Worker
from local_steps import gradients, load, mean
from omnilearn_core.api.strategy import Hierarchical
from omnilearn_runtime import Session
from omnilearn_runtime.group import team_of
from omnilearn_runtime.ledger import epoch_order
from plain import Recipe, flat, loss_of

Steps = dict[int, list[int]]


@dataclass(frozen=True)
class Note:
    """A micro-batch: whose, in which step of its round, and whether the last merge was on its way then."""

    team: str
    epoch: int
    step: int
    positions: tuple[int, ...]
    ahead: bool
    teams: tuple[str, ...]
    """All teams of the generation, with those that had nothing to compute."""

    model: str
    """Hash of the parameters that it was computed with."""


@dataclass
class Logbook:
    """What was computed in each round, by generation: the last one is that in which the round was committed."""

    run: int = 0
    """Which run of the job this is: generations of another may have the same numbers."""

    notes: dict[int, dict[tuple[int, int], list[Note]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, session: Session, me: Worker) -> None:
        fed, rounds = session._fed, session._rounds
        assert fed is not None
        assert fed.piece is not None
        assert rounds.group is not None
        assert rounds.open is not None
        positions = tuple(at for low, high in fed.piece for at in range(low, high))
        step = rounds.learner._taken  # type: ignore[attr-defined]
        ahead, epoch = rounds.sent is not None, rounds.open.epoch
        teams = tuple(sorted({team_of(name) for name in rounds.group.names}))
        model = rounds.learner.managed.parameter_hash()
        note = Note(team_of(me.name), epoch, step, positions, ahead, teams, model)
        with self.lock:
            self.notes[rounds._number][self.run, rounds.group.id.number].append(note)

    def rounds(self) -> Iterator[list[Note]]:
        """Yield what was committed, round by round."""
        for round_ in sorted(self.notes):
            generations = self.notes[round_]
            yield generations[max(generations)]

    def are_in_step(self) -> bool:
        """Tell whether all members of a team have taken every step from the very same model."""
        return all(
            len({note.model for note in notes if (note.team, note.step) == each}) == 1
            for notes in self.rounds()
            for each in {(note.team, note.step) for note in notes}
        )

    def lengths(self) -> list[int]:
        """Return how many steps each round had."""
        return [1 + max(note.step for note in notes) for notes in self.rounds()]


@dataclass
class Team:
    """A team's model, and its optimizer, which goes on through all rounds."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    @property
    def values(self) -> list[Tensor]:
        return [each.detach().clone() for each in self.model.parameters()]


def replay(recipe: Recipe, options: Hierarchical, book: Logbook) -> Tensor:
    """Return the parameters after all rounds of a logbook."""
    model, _, _ = recipe.parts()
    merged = [each.detach().clone() for each in model.parameters()]
    teams: dict[str, Team] = {}
    for notes in book.rounds():
        order = epoch_order(len(recipe.dataset), 0, notes[0].epoch, True).tolist()
        length = 1 + max(note.step for note in notes)
        ahead = any(note.ahead and note.step == 0 for note in notes)
        names = notes[0].teams
        count = len(names)
        for name in names:
            team = teams.setdefault(name, Team(*recipe.parts()[:2]))
            if not ahead:
                load(team.model, merged)
            for step in range(length):
                samples = [
                    order[at] for note in notes if (note.team, note.step) == (name, step) for at in note.positions
                ]
                if samples:
                    gradients(recipe, team.model, samples)
                    team.optimizer.step()
                waited = min(options.wait, length)
                if ahead and step + 1 == waited and count > 1:
                    pairs = zip(team.values, merged, strict=True)
                    load(team.model, [(2 * waited * x + count * m) / (count + 2 * waited) for x, m in pairs])
        weights = [float(sum(len(note.positions) for note in notes if note.team == name)) for name in names]
        merged = mean([teams[name].values for name in names], weights)
    load(model, merged)
    return flat(model)


def as_team_script(
    recipe: Recipe, book: Logbook, on_batch: Callable[[Session, Worker], object] = lambda *_: None
) -> Script:
    """Return the training as a script that keeps the logbook."""

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, scheduler = recipe.parts()
        session.manage(model, optimizer, scheduler=scheduler)
        for _ in session.epochs(recipe.epochs):
            for x, y in session.batches(recipe.dataset):
                on_batch(session, me)
                book.note(session, me)
                session.step(loss_of(model, x, y))
        return flat(model)

    return script
