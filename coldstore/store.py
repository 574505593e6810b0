"""The cold store: queues under one root.

    jjq.json, put-if-absent by the process that creates the first queue

    {"check":"<hex>", "created":1767225600000000, "format":1, "store":"<32 hex digits>"}

`format` is that of the whole layout (paths.py). A store of a later format is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeGuard

from coldstore.block.files import BlockFiles, DataCache
from coldstore.history import load
from coldstore.layout import paths, queue_settings, sealed_json
from coldstore.layout.queue_settings import Deleted, QueueSettings
from coldstore.objects.port import ObjectStore
from coldstore.queue import bulk_import, deletion
from coldstore.queue.bulk_import import Ticket
from coldstore.queue.cold_queue import ColdQueue
from coldstore.queue.spans import NO_SPANS, Spans
from coldstore.queue.verify import Progress, Report, not_shown, unreadable, verify, without_document
from coldstore.shared import failpoint, limits
from coldstore.shared.batch import check_content
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, NotFound, no_queue

FORMAT: Final = 1

_FETCHERS: Final = 16
_AFTER_ALL: Final = "~"  # sorts after every character that a key may have


class ColdStore:
    """Creates, lists and opens queues. Reading alone changes nothing, not even in an empty root."""

    def __init__(
        self,
        objects: ObjectStore,
        clock: Clock,
        chance: Chance,
        cache: DataCache | None = None,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._spans = spans
        self._objects = objects
        self._clock = clock
        self._chance = chance
        self._cache = cache
        self._id = self._read_id()

    @property
    def objects(self) -> ObjectStore:
        """Where everything is kept."""
        return self._objects

    @property
    def id(self) -> str | None:
        """The store's identity; None while nothing was ever written to it."""
        return self._id

    def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> ColdQueue:
        """Create a queue and open it. If it exists with the same settings it is opened, else `Conflict`.

        What is not asked for is a default of a new queue, and may be anything in one that exists.
        """
        wanted = QueueSettings(
            name=name,
            id=self._chance.token(),
            content=check_content(content),
            block_bytes=limits.BLOCK_BYTES_DEFAULT if block_bytes is None else block_bytes,
            block_seconds=limits.BLOCK_SECONDS_DEFAULT if block_seconds is None else block_seconds,
            created_us=self._clock.now_us(),
        )
        data = queue_settings.encode(wanted)
        self._claim()
        try:
            self._objects.put_if_absent(paths.queue(name), data)
            return self._opened(wanted)
        except Conflict:
            found = self._objects.get(paths.queue(name))
        existing = queue_settings.decode(found.data, paths.queue(name))
        if existing.deleted is not None:
            deletion.check_free(existing, self._clock.now_us())
            wanted = replace(wanted, replaces=existing.id)
            self._objects.put_if_match(paths.queue(name), queue_settings.encode(wanted), found.etag)
            return self._opened(wanted)
        existing = _usable(existing)
        if not existing.agrees_with(_filled(wanted, existing, block_bytes, block_seconds)):
            raise Conflict(f"queue {name} exists with other settings: {_shown(existing)}")
        return self._opened(existing)

    def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueSettings:
        """Change the size or age at which blocks are sealed from now on; blocks that are there stay."""

        def changed(now: QueueSettings) -> QueueSettings:
            size = now.block_bytes if block_bytes is None else block_bytes
            age = now.block_seconds if block_seconds is None else block_seconds
            return queue_settings.check_settings(replace(_usable(now), block_bytes=size, block_seconds=age))

        return deletion.change(self._objects, paths.check_name(name), changed)

    def delete_queue(self, settings: QueueSettings, deleted: Deleted, state: str | None) -> QueueSettings:
        """Mark a queue as deleted (deletion.py); one that is deleted already stays as it is."""
        marked = deletion.mark(self._objects, settings.name, settings.id, deleted, state)
        failpoint.reach("delete.marked")
        return marked

    def undelete_queue(self, name: str) -> QueueSettings:
        """Bring a deleted queue back, if its grace period is not over."""
        return deletion.undelete(self._objects, paths.check_name(name), self._clock.now_us())

    def sweep_deleted(self) -> list[str]:
        """Remove the files of deleted queues whose grace period is over; the names of those that are gone."""
        return deletion.sweep(self._objects, self._clock)

    def find(self, name: str) -> QueueSettings | None:
        """What `queue.json` says, also of a queue that is deleted or being imported; None: there is none."""
        return self._find_settings(paths.check_name(name))

    def begin_import(self, name: str, *, idle: bool = False, **asked: Any) -> Ticket:
        """Reserve a new or an idle queue for an import (queue/bulk_import.py); settings as of `create_queue`."""
        wanted = self._wanted(name, asked)
        self._claim()
        return bulk_import.begin(self._objects, wanted, self._chance.token(), required=asked, idle=idle)

    def check_import(self, name: str, *, idle: bool = False, **asked: Any) -> None:
        """Refuse what `begin_import` would refuse now; nothing is written, and no name is reserved."""
        bulk_import.check_begin(self._objects, self._wanted(name, asked), required=asked, idle=idle)

    def _wanted(self, name: str, asked: dict[str, Any]) -> QueueSettings:
        wanted = QueueSettings(name=name, id=self._chance.token(), created_us=self._clock.now_us(), **asked)
        queue_settings.check_settings(wanted)
        return wanted

    def open_queue(self, name: str) -> ColdQueue:
        """A queue as it is now; `NotFound` if there is none of this name."""
        return self._opened(self._settings(name))

    def list_queues(self, *, ledgers: bool = False) -> list[QueueSettings]:
        """The settings of all queues, by name, those of ledgers if asked for; `DataLoss` if one is damaged."""
        with ThreadPoolExecutor(_FETCHERS, "jjq-queues") as pool:
            names = (name for name in self._folders() if ledgers or paths.ledger_parts(name) is None)
            found = pool.map(self._find_settings, names)
            return sorted((settings for settings in found if _is_open(settings)), key=lambda s: s.name)

    def queue_names(self) -> list[str]:
        """The names of all queues, also of one that is damaged: so that the others can be served."""
        with ThreadPoolExecutor(_FETCHERS, "jjq-queues") as pool:
            folders = list(self._folders())
            return sorted(
                name for name, there in zip(folders, pool.map(self._exists, folders), strict=True) if there
            )

    def ledger_names(self, name: str) -> list[str]:
        """The names of the ledgers of a queue's worker groups, also of deleted ones."""
        found: list[str] = []
        after = paths.queue_folder(paths.check_name(name))[:-1] + "~"
        while (info := next(self._objects.list(paths.QUEUES, after), None)) is not None:
            ledger = info.key.split("/")[1]
            if paths.ledger_parts(ledger) is None or paths.worked_queue(ledger) != name:
                break
            found.append(ledger)
            after = f"{paths.QUEUES}{ledger}/{_AFTER_ALL}"
        return found

    def files(self, name: str) -> BlockFiles:
        """The files of a queue, for callers that check them one by one."""
        return BlockFiles(self._objects, self._settings(name))

    def entries(self) -> list[str]:
        """Whatever lies under queues/, by name: queues, what is left of one, and what should not be there."""
        return sorted(self._entries())

    def judge(self, name: str) -> BlockFiles | Report:
        """The files of a queue, to be checked one by one; or the report, if there is nothing to check."""
        try:
            settings = self._find_settings(name) if paths.is_queue_name(name) else None
        except DataLoss as loss:
            return unreadable(name, loss)
        if settings is None:
            return without_document(self._objects, name)
        return not_shown(settings) or BlockFiles(self._objects, settings)

    def verify(self, name: str, progress: Progress | None = None) -> Report:
        """Check every file of a queue, also of one that is too damaged to be opened."""
        judged = self.judge(name)
        return verify(judged, progress) if isinstance(judged, BlockFiles) else judged

    def _opened(self, settings: QueueSettings) -> ColdQueue:
        files = BlockFiles(self._objects, settings, self._cache)
        return ColdQueue(files, self._clock, self._chance, load.load(files), self._spans)

    def _settings(self, name: str) -> QueueSettings:
        settings = self._find_settings(paths.check_name(name))
        if settings is None:
            raise no_queue(name)
        return _usable(settings)

    def _find_settings(self, name: str) -> QueueSettings | None:
        key = paths.queue(name)
        try:
            return queue_settings.decode(self._objects.get(key).data, key)
        except NotFound:
            return None

    def _exists(self, name: str) -> bool:
        try:
            return _is_open(self._find_settings(name))
        except (DataLoss, InvalidInput):
            return True

    def _folders(self) -> Iterator[str]:
        """Folders under queues/ that a queue may have."""
        return filter(paths.is_queue_name, self._entries())

    def _entries(self) -> Iterator[str]:
        """Names under queues/, by jumping from one to the next: a queue may hold millions of objects."""
        after = ""
        while (info := next(self._objects.list(paths.QUEUES, after), None)) is not None:
            _, name, *below = info.key.split("/")
            yield name
            after = f"{paths.QUEUES}{name}/{_AFTER_ALL}" if below else info.key

    def _read_id(self) -> str | None:
        try:
            data = self._objects.get(paths.STORE).data
        except NotFound:
            return None
        fields = sealed_json.unseal(data, paths.STORE, FORMAT)
        identity = fields.get("store")
        if not isinstance(identity, str):
            raise DataLoss(f"{paths.STORE} does not describe a store", key=paths.STORE)
        return identity

    def _claim(self) -> None:
        """Make sure that the root is marked as a store of ours before anything is put into it."""
        if self._id is None:
            fields = {"store": self._chance.token(), "created": self._clock.now_us()}
            with suppress(Conflict):  # another process was quicker: its identity counts
                self._objects.put_if_absent(paths.STORE, sealed_json.seal(fields, FORMAT))
            self._id = self._read_id()


def _is_open(settings: QueueSettings | None) -> TypeGuard[QueueSettings]:
    """Whether the queue is there: neither deleted nor only being imported."""
    return settings is not None and settings.importing is None and settings.deleted is None


def _usable(settings: QueueSettings) -> QueueSettings:
    """`settings` if the queue may be used, else why not."""
    if settings.deleted is not None:
        raise NotFound(deletion.describe_deletion(settings))
    if settings.importing is not None:
        raise Conflict(
            f"queue {settings.name} is being imported: wait for that, or run the import again if it was broken off"
        )
    return settings


def _filled(
    wanted: QueueSettings, existing: QueueSettings, block_bytes: int | None, block_seconds: float | None
) -> QueueSettings:
    """What was asked for, and for the rest what there is."""
    size = existing.block_bytes if block_bytes is None else block_bytes
    age = existing.block_seconds if block_seconds is None else block_seconds
    return replace(wanted, block_bytes=size, block_seconds=age)


def _shown(settings: QueueSettings) -> str:
    return (
        f"content={settings.content} block_bytes={settings.block_bytes} block_seconds={settings.block_seconds:g}; "
        f"use those or another name"
    )
