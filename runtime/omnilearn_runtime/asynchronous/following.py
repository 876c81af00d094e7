"""What a new generation means for a server. Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from omnilearn_core.api.messages import Assignment, Change


class Roster(Protocol):
    """What the server has to know of generations."""

    @property
    def newest(self) -> Assignment | None:
        """The newest generation that was assigned."""
        ...

    def has_built(self, assignment: Assignment) -> bool:
        """Tell whether its group stands here."""
        ...


class Course(Enum):
    """What a server does."""

    STAY = auto()
    ADOPT = auto()
    """It serves the new generation."""

    HAND_OVER = auto()
    """Somebody else will serve: all meet as soon as those who stay have built the new generation."""

    GIVE_UP = auto()
    """The others go on without this server, or begin anew."""


def members_of(assignment: Assignment) -> list[tuple[str, int]]:
    """Return the members by name and attempt, in the order of their ranks."""
    return [(member.worker, member.attempt) for member in assignment.members]


def computing(assignment: Assignment, server_group: str | None) -> int:
    """Return how many members compute: all but whoever only serves, if there is a group for that."""
    groups = [member.worker.rpartition("-")[0].rpartition("-")[2] for member in assignment.members]
    return max(1, sum(group != server_group for group in groups))


def course(present: Assignment, newest: Assignment | None, roster: Roster) -> Course:
    """Return what the server of the present generation does about the newest.

    One in which nobody was lost is adopted when its group stands here, because all will meet in it in the end.
    """
    if newest is None or newest.generation.number <= present.generation.number:
        return Course.STAY
    mine = members_of(newest)[0] == members_of(present)[0] and not newest.members[0].fresh
    if newest.change is Change.START or (newest.change is Change.URGENT and not mine):
        return Course.GIVE_UP
    if not mine:
        return Course.HAND_OVER
    return Course.ADOPT if newest.change is Change.URGENT or roster.has_built(newest) else Course.STAY
