"""HTTP beside gRPC: the same server, the same machine, in turns.

The client of HTTP is a bare one that sends bytes which are ready and reads as much as Content-Length says, as the
client of gRPC is a bare stub. Every push counts when it is durable.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import psutil
import uvloop

from bench.row import Row, at_least, at_most
from coldstore.shared.batch import payload
from jjq.remote.store import RemoteStore
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import encode

BLOCK_BYTES = 1 << 30
ROUNDS = 3  # the best counts: others use this machine, too
LINES = 100_000
Call = Callable[[], Awaitable[Any]]
ARROW = "application/vnd.apache.arrow.stream"


def run(quick: bool) -> list[Row]:
    """All figures of HTTP."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        with _server(root / "on") as (process, grpc_at, http_at):
            with _server(root / "off", "none") as (other, plain_at, _):
                memory = _settled(process) - _settled(other)
                beside = uvloop.run(_beside(grpc_at, plain_at, 200 if quick else 1_000))
            rows = beside + uvloop.run(_all(grpc_at, http_at, 400 if quick else 2_000))
            rows += _under_load(root, process, http_at, 3 if quick else 10)
    return [*rows, at_most("memory of the listener, idle", memory / 2**20, "MiB", 15)]


@contextmanager
def _server(root: Path, http: str = "127.0.0.1:0") -> Iterator[tuple[psutil.Process, str, str]]:
    command = [sys.executable, "-m", "jjq", "serve", "--data", str(root), "--listen", "127.0.0.1:0"]
    command += ["--http-listen", http]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            greeting = process.stdout.readline() if process.stdout else ""
            place = greeting.removeprefix("jjq listens on ").split(",")[0]
            yield psutil.Process(process.pid), place, greeting.rpartition("HTTP on ")[2].strip()
        finally:
            process.terminate()


def _under_load(root: Path, process: psutil.Process, http_at: str, seconds: int) -> list[Row]:
    """The same single push as wrk sends it over 64 connections, if wrk is installed (Debian has it)."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return []
    script = root / "push.lua"
    script.write_text(
        'wrk.method, wrk.body = "POST", string.rep("x", 100)\n'
        'wrk.headers["Content-Type"] = "application/octet-stream"\n'
    )
    command = [wrk, "-t1", "-c64", f"-d{seconds}s", "--latency", "-s", str(script)]
    before = sum(process.cpu_times()[:2])
    said = subprocess.run(
        [*command, f"http://{http_at}/v1/queues/single/elements"], capture_output=True, text=True, check=True
    ).stdout
    used = sum(process.cpu_times()[:2]) - before
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    count = re.search(r"(\d+) requests in ([\d.]+)s", said)
    slowest = re.search(r"99% +([\d.]+)(us|ms|s)\n", said)
    if refused or count is None or slowest is None:
        raise RuntimeError(f"wrk says: {said}")
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}[slowest[2]]
    return [
        Row("wrk, 64 connections, push of one", int(count[1]) / float(count[2]), "pushes/s"),
        Row("wrk, 64 connections, p99", float(slowest[1]) * scale, "ms"),
        Row("wrk, processor time of the server for a push", used / int(count[1]) * 1e6, "µs"),
    ]


def _settled(process: psutil.Process) -> int:
    """Memory of a process that has come to rest."""
    sizes = [0]
    while (len(sizes) < 50 and len(set(sizes[-5:])) > 1) or len(sizes) < 10:
        time.sleep(0.2)
        sizes.append(process.memory_info().rss)
    return sizes[-1]


class Connection:
    """One connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, place: str) -> Connection:
        host, _, port = place.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=2**24))

    async def ask(self, request: bytes) -> None:
        """Send what is ready; the reply has a length."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(head.decode())
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)

    async def drink(self, request: bytes) -> int:
        """Send, and read a reply in chunks to its end: how many bytes it has."""
        self._writer.write(request)
        await self._reader.readuntil(b"\r\n\r\n")
        total = 0
        while True:
            size = int(await self._reader.readline(), 16)
            await self._reader.readexactly(size + 2)
            if not size:
                return total
            total += size

    def close(self) -> None:
        self._writer.close()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


async def _times(call: Call, count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        found.append(time.perf_counter() - began)
    return found


async def _rate(calls: list[Call], each: int) -> float:
    async def caller(call: Call) -> None:
        for _ in range(each):
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(caller(call) for call in calls))
    return len(calls) * each / (time.perf_counter() - began)


async def _all(grpc_at: str, http_at: str, calls: int) -> list[Row]:
    async with RemoteStore(grpc_at) as remote:
        for name in ("single", "lines", "stream"):
            await remote.create_queue(name, block_bytes=BLOCK_BYTES)
        return [
            *await _single(grpc_at, http_at, calls),
            *await _bulk(remote, http_at),
            *await _replay(remote, http_at),
        ]


async def _single(grpc_at: str, http_at: str, calls: int) -> list[Row]:
    """One element of 100 bytes, over both in turns."""
    value = b"x" * 100
    message = encode(pb.PushRequest(queue="single"), payload("bytes", [value]), "arrow")
    body = request("POST", "/v1/queues/single/elements", value, Content_Type="application/octet-stream")
    connections = [await Connection.open(http_at) for _ in range(64)]
    async with grpc.aio.insecure_channel(grpc_at, ServerSettings().options()) as channel:
        push: Any = channel.unary_unary("/jjq.v1.Jjq/Push")

        async def over_grpc() -> None:
            await push(message)

        one_http, one_grpc, many_http, many_grpc = [], [], [], []
        for _ in range(2 * ROUNDS):
            one_grpc += await _times(over_grpc, calls // 8)
            one_http += await _times(lambda: connections[0].ask(body), calls // 8)
            many_grpc.append(await _rate([over_grpc] * 64, calls // 64))
            askers: list[Call] = [partial(each.ask, body) for each in connections]
            many_http.append(await _rate(askers, calls // 64))
    for connection in connections:
        connection.close()
    slow, quick = statistics.median(one_grpc) * 1e3, statistics.median(one_http) * 1e3
    return [
        Row("push of one, gRPC unary, p50", slow, "ms"),
        at_most("push of one, HTTP keep-alive, p50", quick, "ms", slow),
        Row("push, gRPC unary, 64 in flight", max(many_grpc), "pushes/s"),
        at_least("push, 64 connections of HTTP / gRPC", max(many_http) / max(many_grpc), "×", 1.5),
    ]


async def _beside(with_http: str, without: str, calls: int) -> list[Row]:
    """Single pushes over gRPC to a server that speaks HTTP as well, and to one that does not."""
    message = encode(pb.PushRequest(queue="beside"), payload("bytes", [b"x" * 100]), "arrow")
    waits: list[list[float]] = [[], []]
    rates: list[list[float]] = [[], []]
    for _ in range(2 * ROUNDS):
        for at, place in enumerate((with_http, without)):
            async with RemoteStore(place) as remote:
                await remote.create_queue("beside", block_bytes=BLOCK_BYTES)
            async with grpc.aio.insecure_channel(place, ServerSettings().options()) as channel:
                call: Any = channel.unary_unary("/jjq.v1.Jjq/Push")
                push: Call = partial(call, message)
                waits[at] += await _times(push, calls // 4)
                rates[at].append(await _rate([push] * 64, calls // 32))
    slower = statistics.median(waits[0]) / statistics.median(waits[1])
    return [
        at_most("gRPC unary p50, HTTP on / off", slower, "×", 1.1),
        at_least("gRPC unary rate, HTTP on / off", max(rates[0]) / max(rates[1]), "×", 0.9),
    ]


async def _bulk(remote: RemoteStore, http_at: str) -> list[Row]:
    """The same JSON values as lines of two requests, and as batches of 1,000 on a stream."""
    lines = [b'{"id":%d,"name":"%s"}' % (n, b"x" * (80 - len(str(n)))) for n in range(LINES)]
    halves = [b"\n".join(lines[at : at + LINES // 2]) for at in (0, LINES // 2)]  # a body has at most 9 MiB
    bodies = [
        request("POST", "/v1/queues/lines/elements", half, Content_Type="application/x-ndjson")
        for half in halves
    ]
    batches = [payload("bytes", lines[at : at + 1_000]) for at in range(0, LINES, 1_000)]
    connection = await Connection.open(http_at)
    over_http, over_stream = [], []
    for turn in range(ROUNDS):
        began = time.perf_counter()
        for body in bodies:
            await connection.ask(body)
        over_http.append(LINES / (time.perf_counter() - began))
        began = time.perf_counter()
        await asyncio.gather(
            *(
                remote.push("stream", batch, producer=f"p{turn}", sequence=n)
                for n, batch in enumerate(batches)
            )
        )
        over_stream.append(LINES / (time.perf_counter() - began))
    connection.close()
    return [
        Row("PushStream, 100 × 1,000 elements of 100 B", max(over_stream), "elements/s"),
        Row("NDJSON, two requests of 50,000", max(over_http), "elements/s"),
        at_least("NDJSON / PushStream", max(over_http) / max(over_stream), "×", 0.4),
    ]


async def _replay(remote: RemoteStore, http_at: str) -> list[Row]:
    connection = await Connection.open(http_at)
    asked = request("GET", "/v1/queues/stream/elements", Accept=ARROW)
    count = ROUNDS * LINES
    over_http, over_grpc = [], []
    for _ in range(ROUNDS):
        (seconds,) = await _times(lambda: connection.drink(asked), 1)
        over_http.append(count / seconds)
        began = time.perf_counter()
        read = 0
        async for batch in remote.read("stream"):
            read += batch.num_rows
        over_grpc.append(read / (time.perf_counter() - began))
    connection.close()
    return [
        Row("Read over gRPC", max(over_grpc), "elements/s"),
        at_least("Arrow replay over HTTP / Read", max(over_http) / max(over_grpc), "×", 0.8),
    ]
