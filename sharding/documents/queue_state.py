"""State documents of queues that move: subscribers and producers at the moment when a queue changed hands.

The hot store has the format (hotstore.queue.state_document). Of several documents, the one that the shards document
names counts. Those of earlier epochs are not needed any more: `sweep` deletes them. The file is small because
everything else is there; three files of `takeover` use it, and the other documents of a queue are here.
"""

from __future__ import annotations

from contextlib import suppress

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import JjqError
from hotstore.queue.state_document import put, read

__all__ = ["put", "read", "sweep"]


def sweep(objects: ObjectStore, queue: str, keep: str) -> None:
    """Delete the documents of epochs before the one that `keep` begins; what stays is deleted next time."""
    folder = paths.state(queue, "")
    with suppress(JjqError):
        for info in objects.list(folder):
            if info.key.removeprefix(folder)[:20] < keep[:20]:
                objects.delete(info.key)
