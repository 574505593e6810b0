"""Checkpoints of a node whose journal is on object storage: objects beside it, for the node that serves its queues
next.

    checkpoints/<node>/<sequence:020d>-<tenure:016x>-<digest>.duckdb      put once; the two newest of a tenure
    checkpoints/<node>/quarantine/<its name>                              one that was damaged

Read by the node's next process, and by a node that takes over (takeover.py): both replay the journal from there. In
place of the journal's identity stands the first run of the tenure: a later tenure of the node begins with nothing,
and the checkpoints of the one before belong to its orphan journal.

**A process that is not the node any more** may still put a checkpoint. That does no harm: it has only what was
acknowledged before the journal was fenced, and so it is one more right checkpoint of that journal.

**A planned move** does not read them. One queue moves, by a document of its own (state_document.py): exact, at the
moment when the queue was closed. The checkpoint has all queues of the node, and needs the journal behind it, which goes
on with the queues that stay.

On the disk of the node lies a copy of the newest one, for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, DataLoss, NotFound
from hotstore.checkpoint.checkpoint_store import CheckpointName, DiskCheckpoints, digest_of
from sharding.limits import CHECKPOINT_PUT_SECONDS


class ObjectCheckpoints:
    """A `CheckpointStore` for one tenure of a node. `local` gets a copy of the newest checkpoint."""

    every_seconds = CHECKPOINT_PUT_SECONDS  # each is a put of a few megabytes

    def __init__(
        self, objects: ObjectStore, node: str, since: int, local: DiskCheckpoints | None = None
    ) -> None:
        self._objects = objects
        self._node = node
        self._since = since
        self._local = local

    def names(self) -> list[CheckpointName]:
        return [name for name in all_names(self._objects, self._node) if name.journal == self._since]

    def get(self, name: CheckpointName) -> bytes:
        if self._local is not None and name in self._local.names():
            copy = self._local.get(name)
            if digest_of(copy) == name.digest:
                return copy
        try:
            return bytes(self._objects.get(self._key(name)).data)
        except NotFound:
            raise DataLoss(f"{name} is no longer there") from None

    def put(self, name: CheckpointName, made: Path) -> None:
        failpoint.reach("checkpoint.made")
        with suppress(Conflict):  # by an attempt of ours that seemed to fail: the name proves the content
            self._objects.put_if_absent(self._key(name), made.read_bytes())
        failpoint.reach("checkpoint.kept")
        if self._local is not None:
            self._local.put(name, made)
            for older in self._local.names():
                if older != name:
                    self._local.remove(older)

    def remove(self, name: CheckpointName) -> None:
        self._objects.delete(self._key(name))

    def put_aside(self, name: CheckpointName, why: str) -> str:
        place = paths.checkpoint_quarantine(self._node, str(name))
        self._objects.put(place, self.get(name))
        self._objects.delete(self._key(name))
        return place

    def has(self, names: Sequence[CheckpointName]) -> bool:
        """Nobody but nodes changes objects: not asked, since each answer would be a request."""
        return True

    def _key(self, name: CheckpointName) -> str:
        return paths.checkpoint(self._node, str(name))


def all_names(objects: ObjectStore, node: str) -> list[CheckpointName]:
    """The checkpoints of all tenures of a node, oldest first."""
    found = (paths.checkpoint_name(info.key) for info in objects.list(paths.checkpoint_folder(node)))
    names = (CheckpointName.parse(text) for text in found if text is not None)
    return sorted(name for name in names if name is not None)


def remove_tenures(objects: ObjectStore, node: str, needed: Sequence[int]) -> None:
    """Delete the checkpoints of tenures that are over and taken over."""
    for name in all_names(objects, node):
        if name.journal not in needed:
            objects.delete(paths.checkpoint(node, str(name)))
