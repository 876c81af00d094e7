"""The roll call on entering a generation: who is where, who heals whom, what is still to be computed. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from omnilearn_core.api.messages import Change

from .group import team_of
from .ledger import Intervals

# One record, padded with spaces; a worker that holds more intervals than fit says that it holds none.
RECORD_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Record:
    """What one member says."""

    round: int
    model: str
    """Fingerprint of the managed objects' structure."""

    values: str = ""
    """Hash of the parameters; only compared when a job starts."""

    fresh: bool = False
    kind: int = 0
    """Kind of the round that it has begun; 0 if none."""

    held: Intervals = field(default_factory=Intervals)
    course: str = ""
    """Hash of what its team has in common with nobody else; empty if there is no such thing."""

    def to_tensor(self) -> Tensor:
        """Return the record as bytes of fixed length."""
        body = [self.round, self.model, self.values, self.fresh, self.kind, self.held.to_list(), self.course]
        text = json.dumps(body).encode()
        if len(text) > RECORD_BYTES:
            raise ValueError("a record of the roll call is too long")
        return torch.frombuffer(bytearray(text.ljust(RECORD_BYTES)), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> Record:
        """Return the record that a member sent."""
        round_, model, values, fresh, kind, held, course = json.loads(bytes(tensor.numpy().data))
        return cls(round_, model, values, fresh, kind, Intervals.from_list(held), course)

    def fits(self) -> bool:
        """Tell whether the record can be sent as it is."""
        return 24 * len(self.held.to_list()) + 256 < RECORD_BYTES


class UnlikeError(RuntimeError):
    """Workers that do not run the same script; the sentence says what differs. It would happen again."""

    def __init__(self, sentence: str, *, everywhere: bool = True) -> None:
        super().__init__(sentence)
        self.everywhere = everywhere


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all members conclude from the same records."""

    top: int
    """The highest round that anybody has committed."""

    source: int
    """The rank that gives its state to the others."""

    needy: frozenset[int]
    held: Intervals
    """What is held of the round after the top, by all members there."""

    unlike: bool = False
    """Members of one team have not the same optimizer's state: a heal was cut off when only some had it."""


def judge(records: Sequence[Record], names: Sequence[str], change: Change, rank: int) -> Verdict:
    """Conclude; raises UnlikeError on every worker that cannot go on."""
    starting = change is Change.START
    holders = [i for i, record in enumerate(records) if starting or not record.fresh]
    if not holders:
        raise UnlikeError("nobody in this generation holds the model: this is a mistake of the coordinator")
    top = max(records[i].round for i in holders)
    there = [i for i in holders if records[i].round == top]
    _check_models(records, names, there[0], rank, starting=starting)
    if starting and len({records[i].values for i in there}) > 1:
        odd = next(i for i in there if records[i].values != records[there[0]].values)
        raise UnlikeError(
            f"{names[there[0]]} and {names[odd]} begin with different parameters: draw them after the session has been "
            "opened, which sets the seed, and from torch's own generator only"
        )
    kinds = {records[i].kind for i in there if records[i].kind}
    if len(kinds) > 1:
        raise UnlikeError("some workers evaluate while others train: the script must do the same on all of them")
    held = [records[i].held for i in there]
    union = Intervals.of().union(*held)
    if union.size != sum(each.size for each in held):
        raise UnlikeError("two workers hold the same samples: this is a mistake of the protocol, please report it")
    needy = frozenset(i for i in range(len(records)) if i not in there)
    courses = {(team_of(names[i]), records[i].course) for i in there}
    return Verdict(top, there[0], needy, union, len(courses) > len({team for team, _ in courses}))


def _check_models(records: Sequence[Record], names: Sequence[str], source: int, rank: int, *, starting: bool) -> None:
    """Everybody stops if a job would start with unlike models; later only the joiner that differs."""
    odd = [i for i, record in enumerate(records) if record.model != records[source].model]
    if odd and (starting or rank in odd):
        raise UnlikeError(
            f"the model or optimizer of {names[odd[0]]} is not that of {names[source]}: names, shapes and types must "
            "be the same on all workers, and omnilearn_runtime must be of a version that speaks alike; build "
            "the model from constants, not from a worker's name or a random number",
            everywhere=starting,
        )
