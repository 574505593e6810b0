"""The lifecycle of a queue on this node: its phase, and what is known to be wrong with it.

    KNOWN       the journal names the queue, or this node has just claimed it; requests wait until it is open
    ARRIVING    its subscribers and producers are being written to this journal, in several batches
    OPEN        requests are served
    CLOSING     it is about to leave: new requests wait, accepted pushes still reach the journal
    LEAVING     the journal says so: writes are refused, everything is sealed, then somebody decides
    RETURNING   it stays after all; the record that says so is on its way to the journal
    UNDECIDED   the journal says LEAVING, but not whether the queue has left: ask its owner document
    GONE        another node's, or deleted; this object is never used again

Each method that changes the phase is a step. The table `_ALLOWED` has the phases in which a step may be taken;
anywhere else it is a fault of ours and raises.

Two things are independent of the phase. Damage: elements are missing, or the cold store does not fit the journal;
reads around a hole go on, pushes do not. Doubt: elements may be missing behind the last known one; only pushes stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from coldstore.shared.errors import DataLoss, JjqError, check
from hotstore.journal import records

# It has nothing of files that are gone. So errors name it for damaged ones only, and only as a possibility.
DAMAGED_FILES: Final = (
    "bytes of damaged ones, if there are any, are in the quarantine folder of the data directory"
)


class Phase(Enum):
    """Where a queue is in its life on this node; see the module's docstring."""

    KNOWN = "known"
    ARRIVING = "arriving"
    OPEN = "open"
    CLOSING = "closing"
    LEAVING = "leaving"
    RETURNING = "returning"
    UNDECIDED = "undecided"
    GONE = "gone"


# Which step is allowed in which phases.
_ALLOWED: Final = {
    "recover": {Phase.KNOWN, Phase.ARRIVING, Phase.UNDECIDED},
    "arrive": {Phase.KNOWN},
    "settle": {Phase.ARRIVING},
    "confirm": {Phase.KNOWN, Phase.UNDECIDED},
    "open": {Phase.KNOWN},
    "close": {Phase.OPEN},
    "leave": {Phase.CLOSING},
    "stay": {Phase.CLOSING, Phase.LEAVING},
    "reopen": {Phase.RETURNING},
    "doubt_owner": {Phase.LEAVING},
    "end": {Phase.KNOWN, Phase.ARRIVING, Phase.LEAVING, Phase.UNDECIDED},
}
# The journal keeps less: what a restart finds in the queue's row, and what it makes of it.
_STANDINGS: Final = {
    Phase.ARRIVING: records.ARRIVING,
    Phase.LEAVING: records.LEAVING,
    Phase.UNDECIDED: records.LEAVING,
}
_RECOVERED: Final = {
    records.SETTLED: Phase.KNOWN,
    records.ARRIVING: Phase.ARRIVING,
    records.LEAVING: Phase.UNDECIDED,
}


# How a doubt's cause begins if the state of a node is lost, and not elements.
SUBSCRIBERS_LOST: Final = "no checkpoint could be read"
AFFECTED: Final = "; affected: "  # parts such a cause from the names of the subscribers


class Lifecycle:
    """The phase of one queue, its damage and its doubt. Only the event loop changes it, or recovery."""

    __slots__ = (
        "_queue", "cause", "damage", "decision", "doubt", "doubt_stored", "holes", "is_open", "phase", "refusal",
    )  # fmt: skip

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.phase = Phase.KNOWN
        self.is_open = False  # the same as phase OPEN; every push asks
        self.refusal: JjqError | None = None  # why writes are refused, from LEAVING on
        self.decision: asyncio.Future[None] | None = None  # done when it is decided whether the queue leaves
        self.damage: DataLoss | None = None
        self.holes: Sequence[tuple[int, int]] = ()  # the missing offsets, where `damage` is about those
        self.doubt: DataLoss | None = None
        self.cause = ""  # of the doubt
        self.doubt_stored = False  # whether the journal knows of the doubt

    # Phases ---------------------------------------------------------------------------------------

    def recover(self, standing: int) -> None:
        """The journal's row of the queue says `standing`; a later row overrides an earlier one."""
        self._step("recover", _RECOVERED[standing])

    def arrive(self) -> None:
        """Its rows are written in several batches: a restart in between forgets the queue."""
        self._step("arrive", Phase.ARRIVING)

    def settle(self) -> None:
        """All rows of an arriving queue are on their way into the journal."""
        self._step("settle", Phase.KNOWN)

    def confirm(self) -> None:
        """The owner document says that the queue is this node's, whatever the journal feared."""
        self._step("confirm", Phase.KNOWN)
        self.refusal = None

    def open(self) -> None:
        """Serve requests."""
        self._step("open", Phase.OPEN)

    def close(self) -> None:
        """Requests wait from now on, until `decision` is done."""
        self._step("close", Phase.CLOSING)
        self.decision = asyncio.get_running_loop().create_future()

    def leave(self, why: JjqError) -> None:
        """The record is on its way to the journal: later writes fail with `why`."""
        self._step("leave", Phase.LEAVING)
        self.refusal = why

    def stay(self) -> None:
        """The queue stays, and takes writes again; `reopen` follows when the journal knows."""
        self._step("stay", Phase.RETURNING)
        self.refusal = None

    def reopen(self, *, journalled: bool) -> None:
        """Serve requests again; if the record was not written, the next request opens the queue again."""
        self._step("reopen", Phase.OPEN if journalled else Phase.KNOWN)
        self._decide()

    def doubt_owner(self) -> None:
        """It cannot be known now whether the queue has left: the next request for it finds out."""
        self._step("doubt_owner", Phase.UNDECIDED)
        self._decide()

    def end(self) -> None:
        """The queue is another node's, or deleted."""
        self._step("end", Phase.GONE)
        self._decide()

    def _step(self, step: str, phase: Phase) -> None:
        check(
            self.phase in _ALLOWED[step],
            f"queue {self._queue} is {self.phase.value}: the step {step!r} is not allowed there",
        )
        self.phase = phase
        self.is_open = phase is Phase.OPEN

    def _decide(self) -> None:
        decision, self.decision = self.decision, None
        if decision is not None and not decision.done():
            decision.set_result(None)

    @property
    def is_held(self) -> bool:
        """Whether the queue is this node's and not about to leave."""
        return self.decision is None and self.refusal is None

    @property
    def standing(self) -> int:
        """The phase as the queue's row in the journal has it."""
        return _STANDINGS.get(self.phase, records.SETTLED)

    # Damage and doubt -------------------------------------------------------------------------------

    @property
    def loss(self) -> DataLoss | None:
        """Why pushes are refused, if elements are or may be lost."""
        return self.damage or self.doubt

    def report_damage(self, error: DataLoss) -> None:
        """The cold store does not fit the journal, or another node has the queue: no operator can accept that."""
        self.damage = error

    def report_holes(self, holes: Sequence[tuple[int, int]], error: DataLoss) -> None:
        """Acknowledged elements are missing. Requests get this error, unless graver damage is known already."""
        self.holes = holes
        if holes and self.damage is None:
            self.damage = error

    def repair(self) -> None:
        """The holes are being filled."""
        self.damage = None

    def suspect(self, cause: str, end: int) -> None:
        """Elements from `end` on may be lost, and it cannot be known how many; or subscribers and producers are."""
        self.cause = cause
        if self.has_lost_subscribers:
            why, _, affected = cause.partition(AFFECTED)
            named = f". Affected, by what is left of the checkpoints: {affected}" if affected else ""
            self.doubt = DataLoss(
                f"queue {self._queue} has its elements, but it has lost subscribers and the receipts of producers: "
                f"{why}. Put a checkpoint back from a copy of the data directory and start again; or accept the "
                f"loss, jjq queue accept-loss {self._queue}, and create its subscribers again, each with the start "
                f"that is right for it. Until then pushes and unknown subscribers are refused{named}"
            )
            return
        self.doubt = DataLoss(
            f"queue {self._queue} may have lost its last elements, from offset {end} on: {cause}. Put the "
            f"journal's files back ({DAMAGED_FILES}); pushes are refused until the loss is accepted: "
            f"jjq queue accept-loss {self._queue}"
        )

    @property
    def has_lost_subscribers(self) -> bool:
        return self.cause.startswith(SUBSCRIBERS_LOST)

    def check_subscribers_known(self) -> None:
        """Raise the doubt if a subscriber that is not known may be one whose position is lost."""
        if self.doubt is not None and self.has_lost_subscribers:
            raise self.doubt.with_traceback(None)

    def trust(self) -> None:
        """The loss was accepted."""
        self.doubt, self.cause, self.doubt_stored = None, "", False

    def doubt_row(self, number: int) -> list[Any]:
        """The doubt as a row of a DOUBTS record."""
        return [number, self._queue, self.cause]
