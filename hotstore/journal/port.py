"""The journal port: the durable, append-only record of everything not yet in the cold store.

One thread at a time drives a journal; but where `in_flight` is more than 1 a second thread may be in
`sync` beside the one that appends and trims. The order of calls is recover (once, to its end), then any
number of append, sync and trim, then close. Nothing here is specific to a disk: the same port serves a
journal on object storage.

A batch is the unit of atomicity: after a crash it is there whole or not at all. What was synced is
there for certain; what was appended and not synced may or may not be. Several appends may share one
sync; after a crash they survive as a prefix, never with a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from coldstore.shared.errors import Unavailable

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous bytes; a `pyarrow.Buffer` will do too. Not changed by the caller until `append` returns."""


class Record(NamedTuple):
    """A record to append; a payload in several pieces is written one after the other, without joining."""

    kind: int
    payload: Buffer | tuple[Buffer, ...]


class StoredRecord(NamedTuple):
    """A record read back. The view keeps the read buffer around it alive (up to 24 MiB): copy small keeps."""

    kind: int
    payload: memoryview


class JournalBatch(NamedTuple):
    """What one `append` wrote."""

    sequence: int
    records: list[StoredRecord]


class JournalPlace(NamedTuple):
    """Bytes `start` to `end` of a file or object of the journal."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that recovery could not deliver.

    `torn`: the end of the log was being written when the machine stopped; it was never promised to
    anyone, and is cut. `corrupt`: bytes that had been synced are damaged or missing; the batches
    around them were delivered. `first` and `last` are the sequence numbers concerned, None where they
    cannot be known. The bytes at `places` are kept in quarantine.
    """

    kind: Literal["torn", "corrupt"]
    first: int | None
    last: int | None
    places: tuple[JournalPlace, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Extent:
    """What is known of a journal without looking into it."""

    journal: int  # its identity; 0: not known
    begin: int | None  # the first sequence that is not trimmed; None: not known
    synced: int  # every batch before it was durable
    segments: frozenset[int] = frozenset()  # files that were given out and not taken back, by number
    closed: bool = False  # nothing was written after it
    untold: bool = False  # a loss was found, and the journal does not yet say whose it is


class Poisoned(Unavailable):
    """A write or fsync failed, so what is durable is unknown. Restart the process; recovery will tell.

    The fsync is never tried again: the kernel marks the pages clean after the first failure, so that a
    second one succeeds and proves nothing.
    """


class Journal(Protocol):
    """Twelve names; an implementation promises all of the above."""

    @property
    def identity(self) -> int:
        """Tells this journal from every other one at the same place; known once `recover` has begun."""
        ...

    @property
    def in_flight(self) -> int:
        """How many batches it is worth to append before the first of them is synced; 1: sync each at once."""
        ...

    @property
    def next_sequence(self) -> int:
        """What the next `append` returns. Dense, grows for ever, never reused."""
        ...

    @property
    def used_bytes(self) -> int:
        """Bytes of live batches as they are stored: what a budget counts, freed by `trim`."""
        ...

    @property
    def damage(self) -> Sequence[Damage]:
        """What recovery found wrong, in order; complete when `recover` has ended."""
        ...

    def recover(self) -> Iterator[JournalBatch]:
        """Yield every live batch in order. Nothing is changed before the last one was taken, so a
        caller that meets something it does not know may simply stop. Raises Conflict if the journal
        was written by a newer version, Exhausted if there is no room to recover into."""
        ...

    def append(self, records: Sequence[Record]) -> int:
        """Write the records as one batch and return its sequence number; not durable before `sync`.
        Raises Exhausted (nothing was written), InvalidInput (too large, or empty) or Poisoned."""
        ...

    def sync(self) -> None:
        """Return when everything that was appended before the call is durable, else raise Poisoned."""
        ...

    def trim(self, before: int) -> None:
        """Batches with a sequence below `before` are no longer needed. They may still be delivered by
        a later recovery: space is freed in larger units. Raises Poisoned."""
        ...

    def chapter(self, coming: int) -> int | None:
        """The file that a batch of up to `coming` bytes will go to, None if it may be one that is not begun yet.

        Whole files may be lost, so each says again what its records are about."""
        ...

    def note(self, *, durable: bool) -> Extent | None:
        """Look whether the journal is still where it should be, raise Poisoned if not. With `durable`, and the
        journal saying by now who lost something, keep in another place how far it goes. None: nothing to keep."""
        ...

    def close(self, clean: bool = True) -> None:
        """Sync and leave a mark that makes the next start quick; not so after poison or if not `clean`."""
        ...
