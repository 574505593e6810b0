"""A start finds the newest sound checkpoint; what cannot be used is put aside, and said.

no file                 a new node, or one of a release that kept its checkpoints in the journal: all is replayed
damaged, cut, foreign   moved to quarantine and named in the log; the one before it counts, and more is replayed
of a newer format       the start is refused, and nothing is changed
none is sound           if the journal is there from its begin, it tells everything by itself. If not, subscribers
                        and receipts are lost: JournalReplay finds out, the engine puts the queues in doubt
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from coldstore.shared.errors import Conflict, DataLoss, JjqError
from hotstore.checkpoint.checkpoint_store import CheckpointName, CheckpointStore, digest_of, fresh_file
from hotstore.checkpoint.duckdb_file import CheckpointCodec, CheckpointHead
from hotstore.checkpoint.part import CheckpointPart, TableForm
from hotstore.checkpoint.salvage import Affected, salvage
from hotstore.limits import CHECKPOINTS_KEPT

log = logging.getLogger("jjq.hotstore")


class CheckpointPlace(NamedTuple):
    """Where checkpoints are kept, in which form, and a folder of this machine in which they are made and looked at."""

    store: CheckpointStore
    codec: CheckpointCodec
    folder: Path


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The checkpoint that a start uses."""

    head: CheckpointHead
    tables: Mapping[str, pa.Table]
    kept: Sequence[CheckpointName]  # those that are there, oldest first; the last one is this


@contextmanager
def _without_collector() -> Iterator[None]:
    """A hundred thousand new objects, all of which stay: the collector would walk over them again and again, which is a
    third of a start."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class CheckpointRestore:
    """Reads checkpoints for one start. Blocks: for a worker thread."""

    def __init__(self, place: CheckpointPlace, parts: Sequence[CheckpointPart]) -> None:
        self._store, self._codec, self._folder = place
        self._parts = parts
        self.restored: RestoredCheckpoint | None = None
        self.unusable: list[str] = []  # what was wrong with those that were put aside
        self._damaged: list[bytes] = []  # the content of the newest of them, newest first

    def restore(self, journal: int) -> int | None:
        """Give the parts what the newest sound checkpoint of this journal has; its sequence, None if there is none."""
        names = self._store.names()
        while names and self.restored is None:
            name = names[-1]
            try:
                head, tables = self._read(name, journal)
            except DataLoss as error:
                self._put_aside(name, error)
                names.pop()
                continue
            with _without_collector():
                for part in self._parts:
                    part.restore({form.name: tables[form.name] for form in part.forms}, head.sequence)
            self._damaged.clear()
            own = [each for each in names if each.journal == journal]
            self.restored = RestoredCheckpoint(head, tables, own)
        return self.restored.head.sequence if self.restored is not None else None

    def _read(self, name: CheckpointName, journal: int) -> tuple[CheckpointHead, dict[str, pa.Table]]:
        if name.journal != journal:
            raise DataLoss(f"{name} belongs to another journal than {journal:016x}")
        data = self._store.get(name)
        if digest_of(data) != name.digest:
            self._damaged = [*self._damaged, data][:CHECKPOINTS_KEPT]
            raise DataLoss(f"{name} is damaged: its {len(data)} bytes do not match its name")
        # A copy, so that nobody who has the file open can be in the way.
        path = fresh_file(self._folder)
        path.write_bytes(data)
        try:
            head, tables = self._codec.read(path, self._forms)
        except Conflict as error:
            raise Conflict(
                f"checkpoint {name}: {error}: start the version that wrote it; nothing was changed"
            ) from None
        except DataLoss as error:
            raise DataLoss(f"{name} cannot be used: {error}") from error
        finally:
            with suppress(OSError):
                path.unlink()
        if (head.journal, head.sequence) != (name.journal, name.sequence):
            raise DataLoss(f"{name} says of itself that it is {head.sequence} of journal {head.journal:016x}")
        return head, tables

    def salvage(self) -> Affected:
        """If no checkpoint can be used: the subscribers in the damaged ones, as far as they can be read."""
        damaged, self._damaged = self._damaged, []
        return salvage(damaged, self._folder)

    @property
    def _forms(self) -> list[TableForm]:
        return [form for part in self._parts for form in part.forms]

    def _put_aside(self, name: CheckpointName, error: DataLoss) -> None:
        self.unusable.append(error.message)
        try:
            place = self._store.put_aside(name, error.message)
        except (OSError, JjqError) as failed:
            log.error("checkpoint %s; it is not used, and cannot be moved away: %s", error, failed)
            return
        log.error("checkpoint %s; it is not used, and was moved to %s", error, place)
