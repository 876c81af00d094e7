"""What the state machine hears. An event of a worker names the connection it came by: those of an old one are void."""

from __future__ import annotations

from dataclasses import dataclass

from omnilearn_core.api import messages
from omnilearn_core.api.messages import GenerationId
from omnilearn_core.api.strategy import Choice


@dataclass(frozen=True, slots=True)
class Connected:
    """A worker with a good credential has opened a connection."""

    worker: str
    connection: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Joined:
    """It asks to take part, or says in which generation it is."""

    worker: str
    connection: int
    join: messages.Join


@dataclass(frozen=True, slots=True)
class Built:
    """The group of a generation stands on its side."""

    worker: str
    connection: int
    generation: GenerationId


@dataclass(frozen=True, slots=True)
class Entered:
    """It holds the generation's model."""

    worker: str
    connection: int
    generation: GenerationId
    round: int


@dataclass(frozen=True, slots=True)
class Broken:
    """An operation, or the formation, of a generation failed there."""

    worker: str
    connection: int
    generation: GenerationId
    why: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A sign of life, with the step that it has committed in a generation."""

    worker: str
    connection: int
    generation: GenerationId
    step: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """It was told to go."""

    worker: str
    connection: int
    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Its script has come to its end."""

    worker: str
    connection: int
    done: messages.Done


@dataclass(frozen=True, slots=True)
class Failed:
    """Its script raised."""

    worker: str
    connection: int
    error: str
    everywhere: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """Its connection is gone."""

    worker: str
    connection: int


@dataclass(frozen=True, slots=True)
class HeardAll:
    """Signs of life of many workers, each with its time: thousands a second would be too many events."""

    heard: tuple[tuple[Heard, float], ...]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The coordinator itself did not run for so many seconds: nobody else was silent meanwhile."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was measured is enough for Auto to choose."""

    choice: Choice


WorkerEvent = Connected | Joined | Built | Entered | Broken | Heard | Leaving | Finished | Failed | Closed
Event = WorkerEvent | HeardAll | HeldUp | Chosen

_Message = messages.Built | messages.Entered | messages.Broken | messages.Leave | messages.Done | messages.Failed


def of_message(worker: str, connection: int, message: _Message) -> WorkerEvent:
    """Return what a worker's message means."""
    match message:
        case messages.Built():
            return Built(worker, connection, message.generation)
        case messages.Entered():
            return Entered(worker, connection, message.generation, message.round)
        case messages.Broken():
            return Broken(worker, connection, message.generation, message.why)
        case messages.Leave():
            return Leaving(worker, connection, message.why)
        case messages.Done():
            return Finished(worker, connection, message)
        case messages.Failed():
            return Failed(worker, connection, message.error, message.everywhere)
