"""Objects whose digest is told after their last byte: read once, named when they are whole, and never two of them."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OBJECT_CHUNK_BYTES, PART_BYTES
from coldstore.shared.push import Push
from hotstore.large import desk
from hotstore.large.port import LargeStore, large_of
from jjq.client.large.sending import ObjectToSend, send_object
from tests.jjq.serving import Served, hot_store, served, until

DATA = b"".join(n.to_bytes(8, "big") * 128 for n in range(2 * PART_BYTES // 1024)) + b"rest"
SHA = hashlib.sha256(DATA).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
ONE = payload("bytes", [b""])


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(tmp_path / "cold")


@pytest.fixture
async def hot(tmp_path: Path, objects: Any) -> AsyncIterator[Served]:
    async with hot_store(tmp_path / "hot", objects) as store, served(store) as all_of_it:
        await store.create_queue("q")
        yield all_of_it


def keys(objects: LocalObjects, folder: str) -> list[str]:
    return [info.key.rpartition("/")[2] for info in objects.list(f"queues/q/{folder}/")]


def unfinished(objects: LocalObjects) -> list[Path]:
    return list((objects.root / ".tmp").iterdir())


async def upload(large: LargeStore, data: bytes, at: int = 0, name: str = "") -> str:
    """Begin without a digest, or go on; all bytes from `at` on are sent. The name of the upload."""
    state = await large.begin_upload("q", "", len(data), upload=name)
    assert (state.done, state.digest_first, state.received) == (False, False, at)
    for begin in range(at, len(data), OBJECT_CHUNK_BYTES):
        await large.upload(state.upload, begin, data[begin : begin + OBJECT_CHUNK_BYTES])
    return state.upload


async def send(store: Any, source: ObjectToSend) -> None:
    await send_object(large_of(store), "q", source, SystemClock(), SystemChance(), 20.0)


async def test_a_file_is_read_once_and_named_when_it_is_whole(hot: Served, objects: LocalObjects) -> None:
    read: list[int] = []

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            if keys(objects, "objects") or keys(objects, "uploads"):
                raise AssertionError("it has a name before it is whole")
            read.append(len(data))
            return data

        def readinto(self, _buffer: Any, /) -> int:
            raise AssertionError("it is hashed beforehand")

    with ObjectToSend(Counted(DATA)) as source:
        assert source.sha256 == ""
        await send(hot.remote, source)
        assert source.sha256 == SHA

    assert sum(read) == len(DATA)
    assert (keys(objects, "objects"), keys(objects, "uploads")) == ([SHA], [f"{SHA}.json"])
    await hot.remote.append(Push("q", ONE, objects=((0, ObjectRef(SHA, len(DATA))),)))
    await until(lambda: not keys(objects, "uploads"))
    pieces = [piece async for piece in large_of(hot.remote).read_object("q", SHA, len(DATA))]
    assert b"".join(pieces) == DATA
    await until(lambda: not unfinished(objects))


async def test_what_could_be_there_is_hashed_first(
    hot: Served, objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = large_of(hot.remote)
    assert (await large.begin_upload("q", "", PART_BYTES)).digest_first, "one part has its name at once"
    with ObjectToSend(DATA) as source:
        await send(hot.remote, source)
    assert (await large.begin_upload("q", "", len(DATA))).digest_first, "one of this size is there"
    assert not (await large.begin_upload("q", "", len(DATA) + 1)).digest_first
    monkeypatch.setattr(desk, "OBJECTS_LOOKED_AT", 0)
    assert (await large.begin_upload("q", "", len(DATA) + 1)).digest_first, "there are too many"

    with ObjectToSend(DATA) as again:

        def refuse(_at: int) -> bytes:
            raise AssertionError("it is sent although it is there")

        again.read_at = refuse  # type: ignore[assignment,method-assign]
        await send(hot.remote, again)
    assert keys(objects, "objects") == [SHA]


@pytest.mark.parametrize(
    ("begun", "told"), [("", OTHER), ("", ""), (SHA, OTHER), ("", "../../x"), ("", SHA.upper())]
)
async def test_a_digest_that_is_wrong_or_missing_in_the_end_leaves_nothing(
    hot: Served, objects: LocalObjects, begun: str, told: str
) -> None:
    large = large_of(hot.remote)
    state = await large.begin_upload("q", begun, len(DATA))
    for at in range(0, len(DATA), OBJECT_CHUNK_BYTES):
        await large.upload(state.upload, at, DATA[at : at + OBJECT_CHUNK_BYTES])

    with pytest.raises(InvalidInput, match="sha256"):
        await large.finish_upload(state.upload, told)

    assert keys(objects, "objects") == []
    assert keys(objects, "uploads") == ([f"{SHA}.json"] if begun else [])
    await until(lambda: not unfinished(objects))


async def test_of_two_with_the_same_bytes_the_later_one_finds_the_first(
    hot: Served, objects: LocalObjects
) -> None:
    large = large_of(hot.remote)
    first, second = await upload(large, DATA), await upload(large, DATA)
    await large.finish_upload(first, SHA)
    before = objects.head(f"queues/q/objects/{SHA}")

    await large.finish_upload(second, SHA)

    assert objects.head(f"queues/q/objects/{SHA}") == before
    await until(lambda: not unfinished(objects))


async def test_an_upload_goes_on_without_its_digest_and_with_it(hot: Served, objects: LocalObjects) -> None:
    large = large_of(hot.remote)
    state = await large.begin_upload("q", "", len(DATA))
    await large.upload(state.upload, 0, DATA[:OBJECT_CHUNK_BYTES])
    [session] = hot.store._large._sessions.values()
    await until(lambda: session.received == OBJECT_CHUNK_BYTES)
    name = await upload(large, DATA, OBJECT_CHUNK_BYTES, state.upload)
    await until(lambda: session.received == len(DATA))

    again = await large.begin_upload("q", SHA, len(DATA), upload=name)  # by now its sender knows the digest
    assert (again.received, again.done) == (len(DATA), False)
    await large.finish_upload(again.upload, SHA)

    assert keys(objects, "objects") == [SHA]
    assert (await large.begin_upload("q", SHA, len(DATA), upload=again.upload)).done


async def test_a_file_that_changes_while_it_is_sent(
    hot: Served, objects: LocalObjects, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with ObjectToSend(path) as source:
        with path.open("ab") as file:
            file.write(b"more")
        await send(hot.remote, source)
        assert source.sha256 == SHA, "what it was when it was opened"
    with ObjectToSend(path) as source:
        path.write_bytes(DATA[:PART_BYTES])
        with pytest.raises(InvalidInput, match=f"ends at byte {PART_BYTES}"):
            await send(hot.remote, source)
        with pytest.raises(InvalidInput, match=f"ends at byte {PART_BYTES}"):
            await asyncio.to_thread(source.measure)
    assert keys(objects, "objects") == [SHA]


@pytest.mark.parametrize("size", [0, 5, PART_BYTES, len(DATA)])
def test_a_digest_is_that_of_all_bytes_however_they_are_read(size: int) -> None:
    class Endless(io.BytesIO):
        """A file that does not know where its end is."""

        def seek(self, offset: int, whence: int = 0, /) -> int:
            if whence == io.SEEK_END:
                raise io.UnsupportedOperation
            return super().seek(offset, whence)

    data = DATA[:size]
    want = (size, hashlib.sha256(data).hexdigest())
    for file in (Endless(data), io.BytesIO(data)):
        with ObjectToSend(file) as source:
            source.measure()
            assert (source.size, source.sha256) == want
    head = io.BytesIO(b"head" + data)
    head.seek(4)
    with ObjectToSend(head) as source:
        for at in (0, OBJECT_CHUNK_BYTES, 0, 3, OBJECT_CHUNK_BYTES + 3):  # again, as after a cut
            if at < size:
                source.read_at(at)
        source.measure()
        assert (source.size, source.sha256) == want
