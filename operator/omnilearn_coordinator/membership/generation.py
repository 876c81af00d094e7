"""A generation and a worker, as the coordinator knows them."""

from __future__ import annotations

from dataclasses import dataclass

from omnilearn_core.api.messages import Change, Done, GenerationId, MemberAddress
from omnilearn_core.api.strategy import Choice


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is connected."""

    name: str
    attempt: int
    connection: int
    heard: float
    joined: float | None = None
    device: str = "cpu"
    address: str = ""
    port: int = 0
    after: int = 0
    """It counts as a member only of generations above this number: it has come (back) as a joiner after that one."""

    holds: bool = False
    """It holds the newest model; see `State.holders`."""

    leaving: bool = False
    released: bool = False
    done: Done | None = None

    @property
    def active(self) -> bool:
        """True if it has joined and was not let go."""
        return self.joined is not None and not self.released

    def as_member(self, *, fresh: bool) -> MemberAddress:
        """Return the worker as a member of a generation."""
        return MemberAddress(
            worker=self.name,
            attempt=self.attempt,
            device=self.device,
            address=self.address,
            port=self.port,
            fresh=fresh,
        )


@dataclass(frozen=True, slots=True)
class Generation:
    """A fixed list of members, and how far they have come with it."""

    id: GenerationId
    change: Change
    members: tuple[MemberAddress, ...]
    assigned: float
    built: frozenset[str] = frozenset()
    entered: frozenset[str] = frozenset()
    first_entered: float | None = None
    broken: float | None = None
    """When the first member said that it is broken."""

    why_broken: str = ""
    choice: Choice | None = None
    """What Auto had chosen when it was formed."""

    @property
    def number(self) -> int:
        """Its number: a newer generation's is higher."""
        return self.id.number

    @property
    def names(self) -> tuple[str, ...]:
        """The members by rank."""
        return tuple(member.worker for member in self.members)

    @property
    def is_entered(self) -> bool:
        """True if all members hold its model."""
        return len(self.entered) == len(self.members)

    def member(self, worker: str, attempt: int) -> MemberAddress | None:
        """Return the member that is this attempt of a worker."""
        return next((m for m in self.members if m.worker == worker and m.attempt == attempt), None)
