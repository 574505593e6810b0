"""The bytes of large objects over HTTP, past the event loop: cut anywhere, refused, with no thread free."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, DataLoss, Exhausted
from coldstore.shared.limits import PART_BYTES
from hotstore.large.port import large_of
from jjq.client.large.sending import ObjectToSend, send_object
from jjq.http import direct as threads
from jjq.http.large import sending
from jjq.limits import OBJECT_DIRECT_BYTES
from jjq.remote.large import direct, verbs
from jjq.remote.store import RemoteStore
from tests.jjq.cutproxy import through_proxy
from tests.jjq.serving import PATIENT, Served, hot_store, served, until, with_http

DATA = b"".join(n.to_bytes(8, "big") * 128 for n in range(3 * PART_BYTES // 1024)) + b"rest"
SHA = hashlib.sha256(DATA).hexdigest()
BOTH = replace(PATIENT, transport="auto")


@pytest.fixture
async def hot(tmp_path: Path) -> AsyncIterator[Served]:
    async with hot_store(tmp_path, MemoryObjects()) as store, served(store) as all_of_it:
        await store.create_queue("q")
        yield all_of_it


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was asked for over HTTP: up or down, and from which byte on."""
    made: list[tuple[str, int]] = []
    up, down = direct.call_to_upload, direct.call_to_download

    def upload(place: Any, queue: str, name: str, at: int, size: int) -> Any:
        made.append(("up", at))
        return up(place, queue, name, at, size)

    def download(place: Any, queue: str, sha256: str, size: int, start: int, end: int) -> Any:
        made.append(("down", start))
        return down(place, queue, sha256, size, start, end)

    monkeypatch.setattr(verbs, "call_to_upload", upload)
    monkeypatch.setattr(verbs, "call_to_download", download)
    return made


async def send(store: Any, source: ObjectToSend | None = None) -> None:
    with source or ObjectToSend(DATA) as opened:
        await send_object(large_of(store), "q", opened, SystemClock(), SystemChance(), 20.0)


async def read_all(store: Any, start: int = 0, end: int | None = None) -> bytes:
    pieces = large_of(store).read_object("q", SHA, len(DATA), start, end)
    return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("parts", [0, 1, 2, 3])
async def test_a_connection_that_is_cut_at_any_part_costs_nothing_but_time(
    hot: Served, calls: list[tuple[str, int]], parts: int
) -> None:
    loop, cuts = asyncio.get_running_loop(), 0
    async with through_proxy(hot.server, "auto", BOTH) as (proxy, remote):
        source = ObjectToSend(DATA)
        whole = source.read_at

        def read_and_cut(at: int) -> bytes:
            nonlocal cuts
            if at >= parts * PART_BYTES and not cuts:
                cuts += 1
                loop.call_soon_threadsafe(proxy.cut)
            return whole(at)

        source.read_at = read_and_cut  # type: ignore[method-assign]
        await send(remote, source)
        came = 0
        pieces = []
        async for piece in large_of(remote).read_object("q", SHA, len(DATA)):
            pieces.append(piece)
            came += len(piece)
            if came >= parts * PART_BYTES and cuts == 1:
                cuts += 1
                proxy.cut()
    assert b"".join(pieces) == DATA
    assert cuts == 2
    assert calls[0] == ("up", 0)
    assert ("down", 0) in calls


async def test_ranges_and_small_objects(hot: Served, calls: list[tuple[str, int]]) -> None:
    async with with_http(hot.server), RemoteStore(hot.server.address, BOTH) as remote:
        await send(remote)
        assert calls == [("up", 0)]
        assert await read_all(remote, 5) == DATA[5:]
        assert await read_all(remote, 9, 9 + OBJECT_DIRECT_BYTES) == DATA[9 : 9 + OBJECT_DIRECT_BYTES]
        assert calls[1:] == [("down", 5), ("down", 9)]
        assert await read_all(remote, 7, 1000) == DATA[7:1000]
        assert len(calls) == 3, "so few bytes are not worth a connection"
        small = ObjectToSend(b"small")
        await send(remote, small)
        assert len(calls) == 3


async def test_without_http_or_with_grpc_alone_the_stream_has_the_bytes(
    hot: Served, calls: list[tuple[str, int]]
) -> None:
    async with RemoteStore(hot.server.address, BOTH) as remote:
        await send(remote)
        assert await read_all(remote) == DATA
    async with with_http(hot.server):
        assert await read_all(hot.remote) == DATA
    assert calls == []


async def test_a_server_whose_threads_are_busy_takes_the_bytes_on_its_event_loop(
    hot: Served, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(threads, "HTTP_DIRECT_MAX", 0)
    async with with_http(hot.server), RemoteStore(hot.server.address, BOTH) as remote:
        await send(remote)
        assert await read_all(remote) == DATA
    assert calls == [("up", 0), ("down", 0)]


async def test_what_http_refuses_goes_over_grpc_which_tells_why(
    hot: Served, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, int]]
) -> None:
    async def refuse(_request: Any) -> int:
        raise Exhausted("no")

    monkeypatch.setattr(sending, "_patience", refuse)
    async with with_http(hot.server), RemoteStore(hot.server.address, BOTH) as remote:
        await send(remote)
        assert calls == [("up", 0)]
        assert await read_all(hot.store) == DATA
        missing = hashlib.sha256(b"missing").hexdigest()
        with pytest.raises(DataLoss, match=missing):
            async for _ in large_of(remote).read_object("q", missing, len(DATA)):
                pass
    assert calls == [("up", 0), ("down", 0)]


async def test_an_upload_that_the_server_forgot_begins_again(
    hot: Served, calls: list[tuple[str, int]]
) -> None:
    source = ObjectToSend(DATA)
    whole, sessions = source.read_at, hot.store._large._sessions

    def read_and_forget(at: int) -> bytes:
        if at == PART_BYTES and len(calls) == 1:
            loop.call_soon_threadsafe(sessions.clear)
        return whole(at)

    loop = asyncio.get_running_loop()
    source.read_at = read_and_forget  # type: ignore[method-assign]
    async with with_http(hot.server), RemoteStore(hot.server.address, BOTH) as remote:
        await send(remote, source)
        assert await read_all(remote) == DATA


async def test_bytes_out_of_order_or_too_few_are_refused(hot: Served) -> None:
    async with with_http(hot.server), RemoteStore(hot.server.address, BOTH) as remote:
        large = large_of(remote)
        state = await large.begin_upload("q", SHA, len(DATA))
        with pytest.raises(Conflict, match="goes on at byte 0"):
            await large.upload(state.upload, 5, b"x")
        state = await large.begin_upload("q", SHA, len(DATA), upload=state.upload)
        with pytest.raises(Conflict, match=f"0 of {len(DATA)} bytes"):
            await large.finish_upload(state.upload)
        await send(remote)
        assert await read_all(remote) == DATA


async def test_threads_come_back_from_clients_that_leave_and_when_the_server_stops(hot: Served) -> None:
    async with with_http(hot.server) as http:
        lent = http._state.direct
        async with RemoteStore(hot.server.address, BOTH) as remote:
            await send(remote)
            await until(lambda: lent.lent == 0)
            pieces: Any = large_of(remote).read_object("q", SHA, len(DATA))
            assert await anext(pieces)
            await pieces.aclose()
            await until(lambda: lent.lent == 0)
            other = hashlib.sha256(b"other").hexdigest()
            state = await large_of(remote).begin_upload("q", other, len(DATA))
            await large_of(remote).upload(state.upload, 0, DATA[:PART_BYTES])
            await until(lambda: lent.lent == 1)
            await asyncio.wait_for(http.stop(0.1), 10.0)
            assert lent.lent == 0
            [session] = hot.store._large._sessions.values()
            assert session.received == PART_BYTES
