"""Deleting a queue, in steps that may each be the last one before a crash.

    1. note      `deletions/<name>.json` is put, so that a sweep finds the queue without looking at all queues
    2. mark      `queue.json` is swapped for one with the field `deleted`. This is the commit point: from here on
                 there is no queue of this name, for nobody. All files stay where they are
    3. undelete  until the grace period is over: `queue.json` is swapped for one without the field
    4. purge     after it: `queue.json` is swapped again, `files` is `going`, and nobody can undelete any more; then
                 all other files of the queue are deleted, in any order, by any number of processes, again after
                 a crash; then `queue.json` says `gone`, and the note is deleted

**`queue.json` stays**, as a gravestone of some 300 bytes. A delete cannot be conditional, so deleting it could
delete that of a new queue which took the name in the same moment; a swap cannot.

**When the name is free again**: `NAME_REST_SECONDS` after the files are gone. A second process that removes the
same files, and is slow, might otherwise delete the first block of the new queue, which has the key of the old
one's. It looks at `queue.json` every `PURGE_LOOK_SECONDS`, and stops when the files are gone. A new queue takes
the name by swapping the gravestone.

Before a node deletes a queue it has sealed everything, so its journal holds nothing of it
(hotstore.lifecycle.administration).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from coldstore.layout import paths, queue_settings, sealed_json
from coldstore.layout.queue_settings import Deleted, QueueSettings
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared import failpoint
from coldstore.shared.batch import from_us
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, JjqError, NotFound, no_queue
from coldstore.shared.limits import NAME_REST_SECONDS, PURGE_LOOK_SECONDS, SWEEP_GRACE_SECONDS

log = logging.getLogger("jjq.coldstore")

_FORMAT: Final = 1
_US: Final = 1_000_000


def change(objects: ObjectStore, name: str, make: Callable[[QueueSettings], QueueSettings]) -> QueueSettings:
    """Swap `queue.json` for what `make` makes of it, again if others change it meanwhile; what is there then."""
    key = paths.queue(name)

    def decide(found: Object | None) -> Change[QueueSettings]:
        if found is None:
            raise no_queue(name)
        now = queue_settings.decode(found.data, key)
        new = make(now)
        return Change(None if new == now else queue_settings.encode(new), new)

    busy = Conflict(f"queue {name} keeps changing: look at it again, then decide")
    return swap(objects, key, decide, busy=busy).result


def mark(
    objects: ObjectStore, name: str, identity: str, deleted: Deleted, state: str | None
) -> QueueSettings:
    """Steps 1 and 2, for the queue of this identity; one that is deleted already stays as it is."""
    objects.put(paths.deletion(name), sealed_json.seal({"id": identity, "queue": name}, _FORMAT))
    failpoint.reach("delete.noted")

    def marked(now: QueueSettings) -> QueueSettings:
        if now.id != identity:
            raise NotFound(f"queue {name} is now another queue: look at it again, then decide")
        if now.importing is not None:
            raise Conflict(f"queue {name} is being imported: wait for that, or run the import again")
        return now if now.deleted is not None else replace(now, deleted=deleted, state=state)

    return change(objects, name, marked)


def undelete(objects: ObjectStore, name: str, now_us: int) -> QueueSettings:
    """Step 3; a queue that is not deleted stays as it is."""

    def restored(now: QueueSettings) -> QueueSettings:
        if now.deleted is None:
            return now
        if now.deleted.files != "kept" or now.deleted.until_us <= now_us:
            raise NotFound(
                f"queue {name} was kept until {_time(now.deleted.until_us)} and cannot be brought back any more"
            )
        return replace(now, deleted=None)

    return change(objects, name, restored)


def describe_deletion(settings: QueueSettings) -> str:
    """What became of a deleted queue, and what can be done about it."""
    deleted = settings.deleted
    if deleted is None or deleted.files == "gone":
        return no_queue(settings.name).message
    if deleted.files == "going":
        return f"queue {settings.name} was deleted at {_time(deleted.at_us)}, and its files are being removed"
    return (
        f"queue {settings.name} was deleted at {_time(deleted.at_us)}: until {_time(deleted.until_us)} "
        f"`jjq queue undelete {settings.name}` brings it back"
    )


def has_ended(found: QueueSettings | None, identity: str) -> bool:
    """Whether `found` says that the queue of this identity was deleted, and perhaps replaced."""
    if found is None:
        return False  # a queue that was here leaves a gravestone: this is another store
    return found.deleted is not None if found.id == identity else found.replaces == identity


def check_free(settings: QueueSettings, now_us: int) -> None:
    """`Conflict` unless a new queue may take the name of this one."""
    deleted = settings.deleted
    if deleted is None:
        raise Conflict(f"queue {settings.name} exists: choose another name")
    free_us = deleted.gone_us + round(NAME_REST_SECONDS * _US)
    if deleted.files != "gone":
        raise Conflict(
            f"{describe_deletion(settings)}; its name is free about {NAME_REST_SECONDS / 3600:g} h after its files are "
            f"removed. Until then choose another name"
        )
    if now_us < free_us:
        raise Conflict(
            f"the files of a deleted queue {settings.name} were removed a moment ago: its name is free at "
            f"{_time(free_us)}; wait, or choose another one"
        )


def sweep(objects: ObjectStore, clock: Clock) -> list[str]:
    """Step 4 for every queue whose grace period is over; returns their names. A failure is tried again at the next
    sweep."""
    done: list[str] = []
    for info in list(objects.list(paths.DELETIONS)):
        name = paths.deletion_queue(info.key)
        if name is None:
            continue
        try:
            if _Purge(objects, clock, name).run(noted_us=info.modified_us):
                done.append(name)
        except JjqError as error:
            log.warning("the files of deleted queue %s cannot be removed yet: %s", name, error)
    return done


class _Purge:
    """Removes the files of one queue."""

    def __init__(self, objects: ObjectStore, clock: Clock, name: str) -> None:
        self._objects = objects
        self._clock = clock
        self._name = name

    def run(self, noted_us: int) -> bool:
        """Whether all files are gone now."""
        now_us = self._clock.now_us()
        settings = self._look()
        if settings is None or settings.deleted is None:
            # Undeleted, or never marked; a deletion that is under way is not that slow.
            if noted_us < now_us - round(SWEEP_GRACE_SECONDS * _US):
                self._objects.delete(paths.deletion(self._name))
            return False
        if settings.deleted.files != "gone":
            if settings.deleted.until_us > now_us or not self._remove(settings.id):
                return False
            self._set(settings.id, "gone", now_us=self._clock.now_us())
            failpoint.reach("purge.done")
        self._objects.delete(paths.deletion(self._name))
        return True

    def _remove(self, identity: str) -> bool:
        """All but `queue.json`; False if somebody else has finished it meanwhile."""
        self._set(identity, "going")
        failpoint.reach("purge.begun")
        looked = self._clock.monotonic()
        for info in self._objects.list(paths.queue_folder(self._name)):
            if info.key == paths.queue(self._name):
                continue
            if self._clock.monotonic() - looked > PURGE_LOOK_SECONDS:
                settings = self._look()
                if settings is None or settings.id != identity or not _is_going(settings):
                    return False
                looked = self._clock.monotonic()
            self._objects.delete(info.key)
            failpoint.reach("purge.file_deleted")
        return True

    def _set(self, identity: str, files: str, now_us: int = 0) -> None:
        def changed(now: QueueSettings) -> QueueSettings:
            if now.id != identity or now.deleted is None:
                raise Conflict(f"queue {self._name} was brought back: nothing more of it is removed")
            if now.deleted.files in ("gone", files):
                return now
            wanted = Deleted(
                now.deleted.at_us, now.deleted.until_us, "gone" if files == "gone" else "going", now_us
            )
            return replace(now, deleted=wanted, state=None if files == "gone" else now.state)

        change(self._objects, self._name, changed)

    def _look(self) -> QueueSettings | None:
        key = paths.queue(self._name)
        try:
            return queue_settings.decode(self._objects.get(key).data, key)
        except NotFound:
            return None
        except (DataLoss, InvalidInput) as error:
            raise DataLoss(f"nothing is removed: {error.message}", key=key) from error


def _is_going(settings: QueueSettings) -> bool:
    return settings.deleted is not None and settings.deleted.files == "going"


def _time(us: int) -> str:
    return from_us(us).strftime("%Y-%m-%dT%H:%M:%SZ")
