"""Taking pieces of the tail: between the engine and the member that hands them out. Used by `rounds`."""

from __future__ import annotations

from .division import Division
from .faults import Faults, Point
from .group import Group
from .ledger import Intervals
from .membership import Membership
from .tail import Claims, UnansweredError
from .work import Open


class Claimer:
    """Asks for pieces of the open round's tail, one ahead of what is being computed."""

    def __init__(self, membership: Membership, division: Division, faults: Faults) -> None:
        self._membership, self._division, self._faults = membership, division, faults
        self._group: Group | None = None
        self._claims = Claims(self._in_vain)
        self._ahead: Intervals | None = None

    def close(self) -> None:
        """Forget what was asked for: it belongs to a round that is not reduced like this any more."""
        self._claims.close()
        self._ahead = None

    def take(self, opened: Open, group: Group, round_: int) -> bool:
        """Make a piece of the tail pending; False if nothing is left of it, or if the generation has to be left."""
        if not opened.tail or not self._division.shares[group.rank]:
            return False
        self._group = group
        try:
            if self._ahead is None:
                self._ask(opened, group, round_)
            piece, self._ahead = self._ahead or self._claims.answer(), None
            if piece:
                # The answer to this will be there when the piece is done.
                self._ask(opened, group, round_)
        except UnansweredError as error:
            self._membership.give_up(group, str(error))
            return False
        if piece is None:
            # Left with an answer outstanding, the round must not be reduced by this worker.
            self._membership.check()
            return False
        if not piece:
            opened.tail = piece
            return False
        opened.pending = piece
        self._faults.pass_by(Point.CLAIMED, round_)
        return True

    def listen(self, opened: Open) -> None:
        """Find out, without waiting, whether the piece that is being computed is the last."""
        if not opened.tail or self._ahead is not None or self._group is None:
            return
        try:
            self._ahead = self._claims.poll()
        except UnansweredError as error:
            self._membership.give_up(self._group, str(error))
            return
        if self._ahead is not None and not self._ahead:
            opened.tail, self._ahead = self._ahead, None

    def _ask(self, opened: Open, group: Group, round_: int) -> None:
        host = group.assignment.members[self._division.host]
        request = self._division.request(opened.tail, round_, group.rank)
        self._claims.ask(str(group.id), (host.address, host.port), request)

    def _in_vain(self) -> bool:
        group = self._group
        return group is None or self._membership.is_superseded(group) or self._membership.lets_go()
