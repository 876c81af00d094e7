"""Who trains together: a pure state machine, without clock, sockets or randomness. docs/protocol.md has its rules.

`observe` takes events in, `act` decides; whoever drives them (service.py) sends the messages.
"""

from __future__ import annotations

from .act import act, next_look, without_silent
from .observe import observe, refusal
from .state import Outcome, State

__all__ = ["Outcome", "State", "act", "next_look", "observe", "refusal", "without_silent"]
