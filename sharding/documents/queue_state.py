"""State documents (hotstore.queue.state_document) of queues that move: of many, the one that the shards document names
counts, and those of earlier epochs are not needed any more."""

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
