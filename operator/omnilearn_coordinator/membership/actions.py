"""What the state machine wants done. Whoever drives it sends the messages and tells people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnilearn_core.api.messages import GenerationId

from .generation import Generation


class Kind(StrEnum):
    """What has happened, for people and for whoever restarts workers."""

    JOINED = "joined"
    LOST = "lost"
    LEFT = "left"
    FAILED = "failed"
    REFUSED = "refused"
    GENERATION = "generation"
    ENTERED = "entered"
    ADOPTED = "adopted"
    WAITING = "waiting"
    BROKEN = "broken"
    PLAN = "plan"
    CHOSEN = "chosen"
    GONE = "gone"
    JOB_COMPLETE = "job complete"
    JOB_FAILED = "job failed"


@dataclass(frozen=True, slots=True)
class Assign:
    """Tell a worker about a generation, whether it is a member or no longer one."""

    worker: str
    generation: Generation


@dataclass(frozen=True, slots=True)
class Release:
    """Let a worker go."""

    worker: str
    why: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell a connection why it is not wanted, and close it."""

    worker: str
    connection: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close a connection."""

    worker: str
    connection: int


@dataclass(frozen=True, slots=True)
class Adopt:
    """Go on with the plan of a generation that another coordinator has formed."""

    generation: GenerationId


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that people should know, in a sentence."""

    kind: Kind
    sentence: str
    worker: str | None = None


Action = Assign | Release | Refuse | Disconnect | Adopt | Happening
