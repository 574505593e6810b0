"""Notes about uploads: an object with a note may be swept; one without a note is named by an element, and stays.

    queues/<name>/uploads/<sha256>.json
    {"check":"<hex>", "format":1, "from":1200, "renewed":1767225600000000, "state":"open"}

`from` is the offset at which the queue went on when the object was first noted. No element before it names the
object, so a sweep looks at elements from there on, and not at the whole history. A note is put before its object can
be seen, and before the first byte if the digest is known then; it is removed when an element that names the object is
durable. In between, a push that relies on the object renews the note while it is young enough; a sweep takes only old
notes, and first marks them as `sweeping` by compare-and-swap. So a sweep and a push never both succeed: if the push
renews first, the object stays; if it comes later, it must wait.

The order of looks matters: first at the note, then at the object. No note and then an object means that the object
stays; an object and then no note could mean that it has just been swept.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from coldstore.layout import paths, sealed_json
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectInfo, ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import SWEEP_GRACE_SECONDS

FORMAT: Final = 1
_FRESH_US: Final = int(SWEEP_GRACE_SECONDS * 1_000_000) // 2  # a note is renewed when it is older
_ATTEMPTS: Final = 16  # to renew a note that others renew as well


@dataclass(frozen=True, slots=True)
class UploadNote:
    """What a note says, and the version that says it."""

    from_offset: int
    renewed_us: int
    sweeping: bool
    etag: str


class UploadNotes:
    """The notes of one queue. Every method sends some requests to the object store, and blocks."""

    def __init__(self, objects: ObjectStore, queue: str, clock: Clock) -> None:
        self._objects = objects
        self._queue = queue
        self._clock = clock

    def begin(self, sha256: str, size: int, from_offset: int) -> bool:
        """Make sure of an upload's place: True if the object is there already, and is kept for a push."""
        for _ in range(_ATTEMPTS):
            note = self.read(sha256)
            there = self.find(sha256)
            if there is not None and there.size == size and note is None:
                return True
            if self._renewed(sha256, note, from_offset):
                return there is not None and there.size == size
        raise _busy(sha256)

    def check_named(self, sha256: str, size: int) -> None:
        """Return if an element may name this object: it is there, and stays until the element is durable."""
        for _ in range(_ATTEMPTS):
            note = self.read(sha256)
            there = self.find(sha256)
            if there is None:
                raise NotFound(f"queue {self._queue} has no object {sha256}: upload it first, then push")
            if there.size != size:
                raise InvalidInput(f"object {sha256} has {there.size} bytes, not {size}: correct the size")
            if note is None or self._renewed(sha256, note, note.from_offset):
                return
        raise _busy(sha256)

    def forget(self, sha256: str, *, in_parts: bool = True) -> None:
        """A durable element names the object: it stays for good.

        Parts that were left behind go first, as nobody looks for them without the note. A client that still uploads the
        same bytes begins again, and learns that they are there.
        """
        if in_parts:
            self.abort_uploads(sha256)
        self._objects.delete(paths.upload(self._queue, sha256))

    def abort_uploads(self, sha256: str) -> None:
        """Remove the parts of uploads that are not complete."""
        key, store = paths.large(self._queue, sha256), parts_of(self._objects)
        for upload in store.open_uploads(key):
            store.abort_parts(key, upload)

    def read(self, sha256: str) -> UploadNote | None:
        key = paths.upload(self._queue, sha256)
        try:
            found = self._objects.get(key)
        except NotFound:
            return None
        fields = sealed_json.unseal(found.data, key, FORMAT)
        first, renewed, state = fields.get("from"), fields.get("renewed"), fields.get("state")
        if not isinstance(first, int) or not isinstance(renewed, int) or state not in ("open", "sweeping"):
            raise DataLoss(f"{key} does not describe an upload: remove it, then upload again", key=key)
        return UploadNote(first, renewed, state == "sweeping", found.etag)

    def find(self, sha256: str) -> ObjectInfo | None:
        """The object, if it is there."""
        with suppress(NotFound):
            return self._objects.head(paths.large(self._queue, sha256))
        return None

    def mark(self, sha256: str, note: UploadNote) -> bool:
        """Say that the object is being swept; False if somebody has renewed the note meanwhile."""
        try:
            self._put(sha256, replace(note, sweeping=True))
        except Conflict:
            return False
        return True

    def _renewed(self, sha256: str, note: UploadNote | None, from_offset: int) -> bool:
        """See that there is a note that is young; False if others changed it meanwhile: look again."""
        now = self._clock.now_us()
        if note is not None and note.sweeping:
            raise Unavailable(
                f"object {sha256} was uploaded long ago, never named, and is being removed: retry in a minute",
                sent=False,
            )
        if note is not None and now - note.renewed_us < _FRESH_US:
            return True
        try:
            self._put(
                sha256, replace(note, renewed_us=now) if note else UploadNote(from_offset, now, False, "")
            )
        except Conflict:
            return False
        failpoint.reach("object.noted")
        return True

    def _put(self, sha256: str, note: UploadNote) -> None:
        key = paths.upload(self._queue, sha256)
        state = "sweeping" if note.sweeping else "open"
        fields = {"from": note.from_offset, "renewed": note.renewed_us, "state": state}
        data = sealed_json.seal(fields, FORMAT)
        if note.etag:
            self._objects.put_if_match(key, data, note.etag)
        else:
            self._objects.put_if_absent(key, data)


def _busy(sha256: str) -> Unavailable:
    return Unavailable(f"object {sha256} is being uploaded by many at once: retry", sent=False)
