"""The catalog: queues and subscribers as relational tables, in `<data>/catalog.duckdb`.

    queues(id, name, content, block_bytes, block_seconds, created, first_offset, next_offset, cold_offset)
    subscribers(id, name, queue_id → queues.id, block, offset, previous, start, created, asleep)
    checkpoint(format, journal_sequence, written)                         one row
    lag(subscriber, queue, offset, next_offset, lag)                      view
    subscribers_by_block(queue, block, subscribers, names)                view; sleeping ones included

It is a checkpoint, not the truth: journal and cold store are, and the engine holds everything in
memory. `write` runs in a worker thread now and then, never on the push or pop path, and nothing is
lost when it fails: the outcome says why, and the next one catches up. A block is named by its id,
its first offset; there is no table of blocks, as a long history has millions and the cold store
lists them.

**Opened, written and closed each time.** Keeping it open would save about 20 of the 30 ms that a
small change costs, in a thread that nobody waits for (DuckDB works without the interpreter's lock),
and would lock every other tool out: DuckDB lets one process write, or many read. As it is,
`duckdb -readonly` just works between two writes.

**No WAL.** The commit is a DuckDB checkpoint (catalogprobe.py has the settings), which becomes
valid by one header write, so a crash leaves the old catalog or the new one. A WAL beside the file
is therefore another program's, and counts as damage however sound it is: DuckDB 2.0 that commits
over a torn one leaves it lying beside a newer file, which then no longer opens.

**No foreign key** from subscribers to queues: DuckDB checks them too eagerly and refuses to delete,
in one transaction, subscribers and then their queue. Each write checks the relation instead.

A file that is damaged or of another format is moved to quarantine, never deleted, and a fresh one
begun. Which file is damaged is found out by a child process (catalogprobe.py), in the same worker
thread, and not at all while the file is as this process left it. A file that some tool has open is
not touched; the write is skipped and reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import duckdb
import pyarrow as pa

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, JjqError, NotFound, Unavailable
from hotstore.catalog import probe as catalogprobe
from hotstore.catalog import tables as catalogtables
from hotstore.catalog.probe import Verdict, first_line, is_from_outside, is_in_use
from hotstore.catalog.tables import FORMAT, QUEUES, SUBSCRIBERS

__all__ = ["FORMAT", "QUEUES", "SUBSCRIBERS", "Catalog", "Event", "Outcome", "Snapshot"]

SIDECARS: Final = (".wal", ".wal.checkpoint", ".wal.recovery", ".tmp")  # what DuckDB may keep beside a file
# Errors that a damaged file gives; any other is ours or the machine's, and the file stays where it is.
_DAMAGE: Final = (
    duckdb.IOException,
    duckdb.SerializationException,
    duckdb.InternalException,
    duckdb.FatalException,
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something an operator should know of; `message` is one line that says what follows from it."""

    kind: Literal["created", "behind", "in_use", "unproved", "failed", "damaged", "format"]
    message: str
    quarantined: Path | None = None  # the folder to which the file was moved


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a write is in the file. If not, its rows are still to be written, by a later one."""

    stored: bool
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a catalog holds, in the order of ids."""

    sequence: int  # of the last journal record that it includes
    written_us: int
    queues: pa.Table
    subscribers: pa.Table


class Catalog:
    """The catalog at `path`. Safe to use from many threads; nothing is opened before the first use."""

    def __init__(
        self,
        path: Path,
        quarantine: Path,
        clock: Clock,
        chance: Chance,
        *,
        probe: Callable[[Path], Verdict] = catalogprobe.probe,
    ) -> None:
        self._path = path
        self._quarantine = quarantine
        self._clock = clock
        self._chance = chance
        self._probe = probe
        self._lock = threading.Lock()
        self._trusted: object = None  # the stamp of the file when it was last known to be sound
        self._complete = False  # it holds all that this process ever wrote

    @property
    def behind(self) -> bool:
        """Whether the next write must carry everything: the first one, or the file is not as we left it."""
        return not self._complete or self._trusted is None or self._trusted != self._stamp()

    def write(
        self,
        queues: pa.Table,
        subscribers: pa.Table,
        *,
        sequence: int,
        gone: Sequence[str] = (),
        everything: bool = False,
    ) -> Outcome:
        """Bring rows of the schemas QUEUES and SUBSCRIBERS into the file, in one transaction.

        `gone` are ids of queues (their subscribers go with them) and of subscribers. They are deleted
        first, so one that is also among the rows is there anew. With `everything`, whatever is not
        among the rows is deleted. One write at a time: `behind` is what the last one left.
        """
        tables = catalogtables.incoming(queues, subscribers, gone, sequence, self._clock.now_us())
        with self._lock:
            return self._write(tables, everything)

    def read(self) -> Snapshot:
        """All of it; for tests and tools. Raises NotFound, Conflict (in use) or DataLoss, and moves nothing."""
        checkpoint, queues, subscribers = self._ask(
            ("SELECT journal_sequence, epoch_us(written) AS written FROM checkpoint", ()),
            ("SELECT * FROM queues ORDER BY id", ()),
            ("SELECT * FROM subscribers ORDER BY id", ()),
        )
        return Snapshot(
            sequence=checkpoint["journal_sequence"][0].as_py(),
            written_us=checkpoint["written"][0].as_py(),
            queues=queues.cast(QUEUES),
            subscribers=subscribers.cast(SUBSCRIBERS),
        )

    def lag(self, queue: str) -> pa.Table:
        """Subscribers of `queue` with how far each is behind its end, the farthest first."""
        query = "SELECT * FROM lag WHERE queue = ? ORDER BY lag DESC, subscriber"
        return self._ask((query, (queue,)))[0]

    def subscribers_in(self, queue: str, block: int) -> list[str]:
        """Names of the subscribers whose position is in `block`, in order."""
        query = "SELECT unnest(names) AS name FROM subscribers_by_block WHERE queue = ? AND block = ?"
        return list(self._ask((query, (queue, block)))[0]["name"].to_pylist())

    def blocks_with_subscribers(self, queue: str) -> dict[int, int]:
        """Blocks that have subscribers in them, in order, with how many."""
        query = "SELECT block, subscribers FROM subscribers_by_block WHERE queue = ? ORDER BY block"
        table = self._ask((query, (queue,)))[0]
        return dict(zip(table["block"].to_pylist(), table["subscribers"].to_pylist(), strict=True))

    def _write(self, tables: dict[str, pa.Table], everything: bool) -> Outcome:
        if self.behind and not everything:
            return Outcome(False, (Event("behind", f"{self._path} is not as it was left: write everything"),))
        events: list[Event] = []
        for _ in range(2):  # the second time on a fresh file
            if not self._path.exists():
                events.append(Event("created", f"{self._path} did not exist: a new catalog is begun"))
            trouble = self._examine() or self._store(tables, everything)
            if trouble is None:
                return Outcome(True, tuple(events))
            if trouble.kind in ("damaged", "format"):
                trouble = self._move_away(trouble)
            events.append(trouble)
            if trouble.quarantined is None or not everything:
                break
        return Outcome(False, tuple(events))

    def _stamp(self) -> tuple[tuple[int, ...] | None, ...]:
        """Changes whenever the file or one beside it does; nothing is opened (that could drop a lock)."""
        stamps: list[tuple[int, ...] | None] = []
        for suffix in ("", *SIDECARS):
            try:
                found = Path(f"{self._path}{suffix}").stat()
                stamps.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
            except FileNotFoundError:
                stamps.append(None)
        return tuple(stamps)

    def _examine(self) -> Event | None:
        """Why the file must not be opened in this process, if so. As we left it, it is not looked at."""
        stamp = self._stamp()
        if stamp == self._trusted or not any(stamp):
            return None
        if stamp[0] is None:
            return Event("damaged", f"{self._path} is missing, but not what DuckDB keeps beside it")
        verdict = self._probe(self._path)
        if verdict.state != "sound":
            return Event(verdict.state, f"{self._path}: {verdict.detail}")
        if any(stamp[1:]):
            return Event("damaged", f"{self._path} was written to, and not closed, by another program")
        self._trusted, self._complete = stamp, False
        return None

    def _store(self, tables: dict[str, pa.Table], everything: bool) -> Event | None:
        before, self._trusted = self._trusted, None
        fresh = not self._path.exists()
        try:
            with catalogprobe.connect(self._path, read_only=False) as connection:
                flaw = None if fresh or self._complete else self._flaw(connection)
                if flaw is not None:
                    return flaw
                catalogtables.change(connection, tables, everything)
        except duckdb.ConstraintException as error:
            raise InvalidInput(f"catalog rows contradict each other: {first_line(error)}") from error
        except duckdb.Error as error:
            trouble = _event(error, self._path)
            if trouble.kind == "in_use":  # never opened, so not changed
                self._trusted = before
            elif fresh:  # a stub that this call began, on a full disk say; not worth a quarantine
                with suppress(OSError):
                    self._path.unlink()
            return trouble
        self._trusted, self._complete = self._stamp(), True
        return None

    def _flaw(self, connection: duckdb.DuckDBPyConnection) -> Event | None:
        found = catalogtables.flaw(connection)
        return None if found is None else Event(found[0], f"{self._path} {found[1]}")

    def _move_away(self, trouble: Event) -> Event:
        """Move the file, and first what lies beside it, to a folder of their own."""
        folder = self._quarantine / f"catalog-{self._clock.now_us()}-{self._chance.token()}"
        self._trusted, self._complete = None, False
        try:
            folder.mkdir(parents=True)
            for suffix in (*SIDECARS, ""):  # so a crash in between leaves no old log beside a new catalog
                with suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").rename(folder / f"{self._path.name}{suffix}")
            (folder / "reason.txt").write_text(f"{trouble.kind}: {trouble.message}\n", "utf-8")
        except OSError as error:
            return Event("failed", f"{trouble.message}; it cannot be moved to quarantine: {error}")
        return replace(trouble, message=f"{trouble.message}; moved to {folder}", quarantined=folder)

    def _ask(self, *questions: tuple[str, tuple[object, ...]]) -> list[pa.Table]:
        with self._lock:
            if not self._path.exists():
                raise NotFound(f"no catalog at {self._path}: a server writes one while it runs")
            trouble = self._examine()
            if trouble is None:
                try:
                    with catalogprobe.connect(self._path, read_only=True) as connection:
                        trouble = None if self._complete else self._flaw(connection)
                        if trouble is None:
                            return [
                                connection.sql(text, params=values).to_arrow_table()
                                for text, values in questions
                            ]
                except duckdb.Error as error:
                    trouble = _event(error, self._path)
        raise _error(trouble)


def _event(error: duckdb.Error, path: Path) -> Event:
    text = f"{path}: {first_line(error)}"
    if is_in_use(error):
        return Event("in_use", text)
    damaged = isinstance(error, _DAMAGE) or "Corrupt" in text  # an index block's checksum has no class
    return Event("damaged" if damaged and not is_from_outside(error) else "failed", text)


def _error(trouble: Event) -> JjqError:
    """What a reader is told."""
    if trouble.kind == "damaged":
        return DataLoss(f"{trouble.message}; the server's next checkpoint replaces it", key="catalog")
    if trouble.kind == "in_use":
        return Conflict(f"{trouble.message}; close it there, then ask again")
    if trouble.kind == "format":
        return Conflict(f"{trouble.message}; ask with the version that wrote it")
    return Unavailable(trouble.message)
