"""The port `PartStore`: an object in parts, for what is too large to be held in memory.

Memory, local files and S3 implement it beside `ObjectStore`. An upload is invisible until `complete` gives the
object its name, whole and durable. Parts may be put in any order and at the same time; a part that is put again
replaces the first one. Errors are those of `ObjectStore`; an upload that is gone is `NotFound`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from coldstore.objects.port import ObjectStore


class PartStore(Protocol):
    """Five verbs. All parts but the last have the same size, `limits.PART_BYTES`."""

    @property
    def names_at_end(self) -> bool:
        """Whether `complete_parts` may give the object another key than that of the other verbs."""
        ...

    def begin_parts(self, key: str) -> str:
        """Begin an upload; returns its name."""
        ...

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Put part `number`, counted from 0; returns its tag, for `complete_parts`."""
        ...

    def complete_parts(self, key: str, upload: str, tags: Sequence[str]) -> None:
        """Make the object of its parts. One that is there already is replaced, or stays: the bytes are the same."""
        ...

    def abort_parts(self, key: str, upload: str) -> None:
        """Forget an upload and its parts; one that is gone is no error."""
        ...

    def open_uploads(self, key: str) -> Sequence[str]:
        """Uploads to `key` that were neither completed nor aborted, as far as they outlive their process."""
        ...


def parts_of(objects: ObjectStore) -> PartStore:
    """The same store: all that ship with the product take parts."""
    return cast("PartStore", objects)
