"""One upload under way: pieces of any length become parts."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest

from coldstore.large.notes import UploadNotes
from coldstore.large.upload import LargeUpload
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import MIB, PART_BYTES
from hotstore.large.session import UploadSession
from hotstore.runner import InlineRunner

DATA = b"".join(n.to_bytes(8, "big") * 128 for n in range(2 * PART_BYTES // 1024)) + b"rest"


@pytest.mark.parametrize("size", [0, 5, PART_BYTES, PART_BYTES + 1, len(DATA)])
@pytest.mark.parametrize("step", [MIB, MIB + 3, PART_BYTES, 2 * PART_BYTES + 4])
@pytest.mark.parametrize("first", [0, 1])
async def test_pieces_of_any_length_are_stored_as_they_came(size: int, step: int, first: int) -> None:
    objects, data = MemoryObjects(), DATA[:size]
    sha256 = hashlib.sha256(data).hexdigest()
    upload = LargeUpload(objects, "q", sha256, size)
    session = UploadSession("q", sha256, size, 0, upload, InlineRunner())
    await session.begin()

    for at, end in pairwise(sorted({0, *range(first, size, step), size})):
        await session.add(at, data[at:end])
    await session.finish("", UploadNotes(objects, "q", SystemClock()))

    assert objects.get(f"queues/q/objects/{sha256}").data == data
