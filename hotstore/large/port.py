"""The protocol `LargeStore`: large objects in and out. A node, a router and a client of a server have it.

An upload is begun, continued and finished. A client that was cut off begins again with the name of the upload, and gets
how much came; a server that was started again knows nothing of it, and the upload begins at 0. Begin also tells that
the object is there already: then nothing is sent. Afterwards a push names the object (`Push.objects`).

A client that does not know the digest yet begins without it, hashes what it sends, and gives the digest in the end. The
store may ask for the digest first, where it decides whether or under which key anything is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, cast

from coldstore.shared.results import UploadState
from hotstore.port import Store


class LargeStore(Protocol):
    """Four verbs. Errors are those of coldstore.shared.errors."""

    @property
    def object_bytes_max(self) -> int:
        """How large an object may be, as far as it is known here."""
        ...

    async def begin_upload(self, queue: str, sha256: str, size: int, *, upload: str = "") -> UploadState:
        """Announce an object, or go on with `upload`. What is too large, or over a quota, is refused here.

        `sha256` may be empty; if the answer is `digest_first`, begin again with it.
        """
        ...

    async def upload(self, upload: str, at: int, data: bytes) -> None:
        """The bytes from `at` on, which must be where the upload is. Returns when there is room for more."""
        ...

    async def finish_upload(self, upload: str, sha256: str = "") -> None:
        """All bytes were sent: returns when the object is durable, `InvalidInput` if it is not as announced.

        `sha256` must be told if the upload was begun without it.
        """
        ...

    def read_object(
        self, queue: str, sha256: str, size: int, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Bytes `start`..`end` in pieces. `DataLoss` names an object that is missing or too short.

        The digest is for the reader to check, who has all of the bytes if he wants all.
        """
        ...


def large_of(store: Store) -> LargeStore:
    """A store with these verbs: those of nodes, routers and servers have them."""
    return cast("LargeStore", store)
