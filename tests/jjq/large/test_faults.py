"""Uploads and downloads that are cut, killed and carried on; and how much memory they take."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import jjq
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.shared import failpoint
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.limits import MIB, OBJECT_CHUNK_BYTES, PART_BYTES
from coldstore.shared.push import Push
from coldstore.store import ColdStore
from hotstore.large.port import LargeStore, large_of
from jjq.client.large.sending import ObjectToSend, send_object
from tests.jjq.cluster.members import real_cluster
from tests.jjq.cutproxy import through_proxy
from tests.jjq.serving import PATIENT, Served, hot_store, served
from tests.servers.jjq_server import JjqServer

DATA = os.urandom(1024) * (3 * PART_BYTES // 1024) + b"rest"  # noqa: TID251 - any bytes will do
SHA = hashlib.sha256(DATA).hexdigest()
ONE = payload("bytes", [b""])


@pytest.fixture
async def hot(tmp_path: Path) -> AsyncIterator[Served]:
    async with hot_store(tmp_path, MemoryObjects()) as store, served(store) as all_of_it:
        yield all_of_it


async def read_all(store: LargeStore, queue: str = "q") -> bytes:
    return b"".join([piece async for piece in store.read_object(queue, SHA, len(DATA))])


async def test_an_upload_goes_on_where_it_was(hot: Served) -> None:
    await hot.store.create_queue("q")
    large = large_of(hot.remote)
    first = await large.begin_upload("q", SHA, len(DATA))
    at = 0
    while at < PART_BYTES + 5 * OBJECT_CHUNK_BYTES:
        await large.upload(first.upload, at, DATA[at : at + OBJECT_CHUNK_BYTES])
        at += OBJECT_CHUNK_BYTES

    again = await large.begin_upload("q", SHA, len(DATA), upload=first.upload)
    while again.received < at:  # what was sent last may be on its way still
        again = await large.begin_upload("q", SHA, len(DATA), upload=again.upload)

    with pytest.raises(NotFound, match="begin it again"):
        await large.upload(first.upload, at, b"x")
    while at < len(DATA):
        await large.upload(again.upload, at, DATA[at : at + OBJECT_CHUNK_BYTES])
        at += OBJECT_CHUNK_BYTES
    await large.finish_upload(again.upload)
    assert (await large.begin_upload("q", SHA, len(DATA))).done
    assert await read_all(large) == DATA


@pytest.mark.parametrize("parts", [0, 1, 2, 3])
async def test_a_connection_that_is_cut_at_any_part_costs_nothing_but_time(hot: Served, parts: int) -> None:
    await hot.store.create_queue("q")
    cuts = 0
    async with through_proxy(hot.server, "grpc", PATIENT) as (proxy, remote):
        source = ObjectToSend(DATA)
        whole = source.read_at

        def read_and_cut(at: int) -> bytes:
            nonlocal cuts
            if at >= parts * PART_BYTES and not cuts:
                cuts += 1
                loop.call_soon_threadsafe(proxy.cut)
            return whole(at)

        loop = asyncio.get_running_loop()
        source.read_at = read_and_cut  # type: ignore[method-assign]
        large = large_of(remote)
        await send_object(large, "q", source, SystemClock(), SystemChance(), 20.0)
        pieces = []
        async for piece in large.read_object("q", SHA, len(DATA)):
            pieces.append(piece)
            if len(pieces) == 3 + 8 * parts:
                proxy.cut()
    assert cuts == 1
    assert b"".join(pieces) == DATA


async def test_what_is_not_as_announced_is_refused_and_not_kept(hot: Served) -> None:
    await hot.store.create_queue("q")
    large = large_of(hot.remote)
    other = hashlib.sha256(b"other").hexdigest()
    state = await large.begin_upload("q", other, 5)
    await large.upload(state.upload, 0, b"wrong")
    with pytest.raises(InvalidInput, match="read the source again"):
        await large.finish_upload(state.upload)
    state = await large.begin_upload("q", other, 4)
    await large.upload(state.upload, 0, b"other")
    with pytest.raises(InvalidInput, match="more than the 4 bytes"):
        await large.finish_upload(state.upload)
    state = await large.begin_upload("q", other, 6)
    await large.upload(state.upload, 0, b"other")
    with pytest.raises(Conflict, match="5 of 6 bytes"):
        await large.finish_upload(state.upload)
    for missing in (ObjectRef(other, 5), ObjectRef(SHA, len(DATA))):
        with pytest.raises(NotFound, match="upload it first"):
            await hot.remote.append(Push("q", ONE, objects=((0, missing),)))
    with pytest.raises(InvalidInput, match="of 1"):
        await hot.remote.append(Push("q", ONE, objects=((1, ObjectRef(other, 5)),)))


async def test_sixteen_writers_of_the_same_bytes_make_one_object(hot: Served) -> None:
    await hot.store.create_queue("q")

    async def write() -> int:
        with ObjectToSend(DATA) as source:
            await send_object(large_of(hot.remote), "q", source, SystemClock(), SystemChance(), 20.0)
        receipt = await hot.remote.append(Push("q", ONE, objects=((0, ObjectRef(SHA, len(DATA))),)))
        return receipt.first_offset

    assert sorted(await asyncio.gather(*(write() for _ in range(16)))) == list(range(16))
    assert await read_all(large_of(hot.remote)) == DATA


async def test_any_node_takes_an_upload_and_the_owner_the_push(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "a", "b") as nodes:
        a, b = await nodes.client("a"), await nodes.client("b")
        await a.create_queue("q")
        for client in (a, b):
            with ObjectToSend(DATA) as source:
                await send_object(large_of(client), "q", source, SystemClock(), SystemChance(), 20.0)
            await client.append(Push("q", ONE, objects=((0, ObjectRef(SHA, len(DATA))),)))
            assert await read_all(large_of(client)) == DATA


@pytest.mark.parametrize(
    "point", [*(p for p in failpoint.OBJECT_NAMES if p != "object.swept"), "object.part_put:3"]
)
def test_kill_nine_at_any_step_acknowledges_nothing_without_its_object(point: str, tmp_path: Path) -> None:
    name, _, nth = point.partition(":")
    server = JjqServer(tmp_path, environment={"JJQ_FAILPOINTS": f"{name}:{nth or 1}:kill"})
    with server:
        with jjq.connect(server.address) as client:
            client.create_queue("q")
        with jjq.connect(server.address, timeout=3.0) as client, pytest.raises(jjq.Unavailable):
            client.push_file("q", io.BytesIO(DATA))
        server.process.wait(20)
    with JjqServer(tmp_path) as again, jjq.connect(again.address) as client:
        for element in client.replay("q").elements():
            assert element.read() == DATA
        before = client.get_queue("q").next_offset
        client.push_file("q", io.BytesIO(DATA))
        found = list(client.replay("q").elements())
        assert len(found) == before + 1
        assert found[-1].read() == DATA
    cold = ColdStore(LocalObjects(tmp_path / "data" / "cold"), SystemClock(), SystemChance())
    assert [info.key for info in cold.objects.list("queues/q/objects/")] == [f"queues/q/objects/{SHA}"]


MEMORY = """
import io, resource, sys
import jjq

class Zeros(io.RawIOBase):
    def __init__(self, size): self.left = size
    def readable(self): return True
    def readinto(self, buffer):
        count = min(len(buffer), self.left)
        buffer[:count] = bytes(count)
        self.left -= count
        return count

with jjq.connect(sys.argv[1]) as client:
    client.create_queue("q")
    client.push_file("q", io.BytesIO(b"warm"))
    next(client.replay("q").elements()).read()
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    client.push_file("q", Zeros(int(sys.argv[2])))
    last = list(client.replay("q").elements())[-1]
    last.save(sys.argv[3])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
"""


def test_memory_stays_flat_on_both_sides(tmp_path: Path) -> None:
    size = 192 * MIB

    def peak(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0])

    with JjqServer(tmp_path / "server") as server:
        with jjq.connect(server.address) as client:
            client.create_queue("before")
        server.stop()
        server.start()  # now it has read a checkpoint: else the first one, at any time, loads 37 MB of DuckDB's code
        idle = peak(server.process.pid)
        command = [sys.executable, "-c", MEMORY, server.address, str(size), str(tmp_path / "copy")]
        grown = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=100).stdout)
        served_kib = peak(server.process.pid) - idle

    assert (tmp_path / "copy").stat().st_size == size
    assert grown < 100 * 1024, f"the client took {grown} KiB"
    assert served_kib < 100 * 1024, f"the server took {served_kib} KiB"
