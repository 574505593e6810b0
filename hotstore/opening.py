"""Opening a data directory: the lock, the journal, the checkpoints, and the engine over them.

<data>/lock   <data>/journal/   <data>/journal.bounds   <data>/checkpoints/   <data>/quarantine/
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpoint_store import FOLDER, CheckpointStore, DiskCheckpoints
from hotstore.checkpoint.duckdb_file import DuckDbCodec
from hotstore.checkpoint.restore import CheckpointPlace
from hotstore.engine import Engine, Runners
from hotstore.journal import records
from hotstore.journal.directory_lock import DirectoryLock, lock_directory
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Journal
from hotstore.journal.witness import Witness
from hotstore.queue.owners import Owners
from hotstore.runner import use_quick_pool
from hotstore.settings import HotSettings
from hotstore.store import HotStore


async def open_engine(
    directory: Path,
    cold: ColdStore,
    *,
    settings: HotSettings,
    clock: Clock,
    chance: Chance,
    place: str = "",
    node: str | None = None,
    lock: DirectoryLock | None = None,
    journal: Journal | None = None,
    checkpoint_store: Callable[[DiskCheckpoints], CheckpointStore] = lambda checkpoint_store: (
        checkpoint_store
    ),
    guard: Callable[[Journal], Journal] = lambda journal: journal,
    owners: Owners | None = None,
    may_store: Callable[[], None] | None = None,
    flush_seconds: float = 0.0,
) -> Engine:
    """Recover what `directory` holds, or begin there, and serve. `Conflict` if another process has it.

    `place`          where the cold store lies, so that a copy of it is not taken for the store itself
    `node`           the name of this node in a cluster; None: the store has no other server
    `lock`           of the directory, if the caller has it already. The engine releases it
    `journal`        to be used instead of one on the disk of `directory`
    `checkpoint_store`          keeps the checkpoints instead of the one on the disk, which it is given
    `guard`          makes the journal that is used of the one on the disk
    `owners`         which node owns a queue; None: all queues are ours
    `may_store`      is asked before a block is stored
    `flush_seconds`  groups of pushes begin no quicker after one another
    """
    lock = lock_directory(directory) if lock is None else lock
    use_quick_pool(os.environ)
    runners = Runners.threads()
    try:
        disk = RealDisk(directory)
        kept = DiskCheckpoints(disk, settings.checkpoint_seconds)
        witness = None
        if journal is None:
            witness = Witness(cold.objects, node, place)
            journal = guard(_disk_journal(directory, settings, chance, witness, kept))
        engine = Engine(
            journal,
            cold,
            CheckpointPlace(checkpoint_store(kept), DuckDbCodec(), directory / FOLDER),
            settings,
            clock,
            chance,
            runners,
            disk.free_bytes,
            on_closed=lock.release,
            owners=owners,
            witness=witness,
            is_in_place=lock.is_in_place,
            node=node or "",
        )
        engine.committer.every_seconds = flush_seconds
        if may_store is not None:
            engine.sealer.may_store = may_store
        await engine.start()
        _remove_catalog(directory)
    except BaseException:
        runners.close()
        lock.release()
        raise
    return engine


def _remove_catalog(directory: Path) -> None:
    """Remove the copy of some state that earlier releases wrote for people. It would mislead them now."""
    for old in directory.glob("catalog.duckdb*"):
        with suppress(OSError):
            old.unlink()


def _disk_journal(
    directory: Path,
    settings: HotSettings,
    chance: Chance,
    witness: Witness,
    checkpoint_store: DiskCheckpoints,
) -> Journal:
    return DiskJournal(
        RealDisk(directory / "journal"),
        chance,
        segment_bytes=settings.segment_bytes,
        kinds=records.KINDS,
        beside=RealDisk(directory),
        elsewhere=witness.extent,
        checkpoints=lambda: {name.journal: name.sequence for name in checkpoint_store.names()},
    )


async def open_store(
    directory: Path, cold: ColdStore, *, settings: HotSettings, clock: Clock, chance: Chance
) -> HotStore:
    """As `open_engine`, for callers that only need the verbs; `close` of the store closes everything."""
    return (await open_engine(directory, cold, settings=settings, clock=clock, chance=chance)).store
