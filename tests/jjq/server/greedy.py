"""A drill: requests that cost the server far more than their sender, and a healthy client beside them.

    python -m tests.jjq.server.greedy [REQUEST …]      all of them in full size, each against a server of its own

Eight connections send the same request again and again, from a process of their own. Meanwhile a healthy client
pushes single elements, and what the server's process takes is looked at. The tests run the same in a smaller size.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import psutil
import pyarrow as pa

from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import BATCH_ELEMENTS_MAX, ELEMENT_BYTES_MAX, KIB, MESSAGE_BYTES_MAX, MIB
from jjq.http.v1.elements import ARROW, NDJSON
from jjq.limits import HTTP_JSON_BYTES_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field
from tests.jjq.server import doors
from tests.jjq.serving import until
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import free_ports

CONNECTIONS = 8
OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", 64 * MIB),
    ("grpc.use_local_subchannel_pool", 1),
]
FULL = MESSAGE_BYTES_MAX - 64 * KIB  # the largest message that is read
AT_ONCE = 4  # calls of each connection, where they do not wait for each other
STREAMS = 3_200  # that never read …
SECONDS = 5.0  # … for so long, in each round
TINY = 640_000  # the most elements that one push holds
PREPARED = 2 * TINY  # elements in the queue that is read


def elements(each: bytes, count: int) -> bytes:
    """A push of `count` elements that are encoded as `each`, made without protobuf."""
    content = (b"\x0a" + arrow_field.varint(len(each)) + each) * count
    return (
        pb.PushRequest(queue="greedy").SerializeToString() + arrow_field.lead_elements(len(content)) + content
    )


def arrow(batch: pa.RecordBatch, queue: str = "greedy") -> bytes:
    return arrow_field.join(pb.PushRequest(queue=queue).SerializeToString(), [_stream(batch)])


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _empty(scale: float) -> bytes:
    """More elements than one push may hold, of two bytes each."""
    return elements(b"", max(BATCH_ELEMENTS_MAX + 1, int(FULL * scale) // 2))


def _tiny(scale: float) -> bytes:
    return elements(b"\x22\x01x", int(TINY * scale))


def _name(size: int) -> bytes:
    return b"\x0a" + arrow_field.varint(size) + b"x" * size


def _headers(scale: float) -> bytes:
    one = b"".join(b"\x2a\x06\x0a\x04%04x" % n for n in range(int(65_536 * scale)))
    many = one * int(scale * FULL / len(one))
    return elements(many, 1)


def _columns(scale: float) -> bytes:
    schema = pa.schema([pa.field(f"c{n}", pa.binary()) for n in range(int(35_000 * scale))])
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.binary())] * len(schema), schema=schema)
    return arrow(empty)


def _dictionary(scale: float) -> bytes:
    return arrow(_dictionary_batch(scale))


def _dictionary_batch(scale: float) -> pa.RecordBatch:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * int(1_000_000 * scale), pa.int8()), [b"x" * MIB])
    return pa.RecordBatch.from_arrays([values], ["value"])


def _dictionary_stream(scale: float) -> bytes:
    return _stream(_dictionary_batch(scale)).to_pybytes()


def _json(scale: float) -> bytes:
    """One value, which the parser of JSON takes in one call."""
    return arrow(pa.RecordBatch.from_arrays([pa.array([_json_text(scale)])], ["value"]), "json")


def _json_text(scale: float) -> bytes:
    return b"[" + b"1," * (int((ELEMENT_BYTES_MAX - KIB) * scale) // 2) + b"1]"


def _document(scale: float) -> bytes:
    """As many elements as a JSON document holds."""
    each = b'{"value":"x","headers":{"a":"b"}}'
    return (
        b'{"elements":['
        + b",".join([each] * (int((HTTP_JSON_BYTES_MAX - KIB) * scale) // (len(each) + 1)))
        + b"]}"
    )


@dataclass(frozen=True)
class Request:
    """One request, by how much of the full size: its method, and its bytes."""

    name: str
    method: str
    build: Callable[[float], bytes]
    stream: bool = False
    refused: bool = True
    at_once: int = 1  # calls of each connection
    door: str = "grpc"  # http: the method is the content type; websocket: as over gRPC
    queue: str = "greedy"  # that is pushed to over HTTP


REQUESTS = {
    each.name: each
    for each in (
        Request("empty-elements", "Push", _empty),
        Request("many-at-once", "Push", _empty, at_once=AT_ONCE),
        Request("too-large", "Push", lambda s: bytes(int(256 * MIB * s))),
        Request("json", "Push", _json, refused=False),
        Request("tiny-elements", "Push", _tiny, refused=False),
        Request(
            "push-stream", "PushStream", _tiny, stream=True, refused=False
        ),
        Request("pop-stream", "PopStream", lambda s: b"\x0a\x00" * (int(FULL * s) // 2), stream=True),
        Request("headers", "Push", _headers),
        Request("fields", "Push", lambda s: elements(b"\x30\x01" * (int(FULL * s) // 2), 1)),
        Request("long-name", "CreateQueue", lambda s: _name(int(FULL * s))),
        Request("fields-of-a-name", "GetQueue", lambda s: b"\x0a\x01a" * (int(FULL * s) // 3)),
        Request("columns", "Push", _columns),
        Request("dictionary", "Push", _dictionary),
        Request(
            "never-read",
            "Read",
            lambda s: pb.ReadRequest(queue="history", form="FORM_ARROW").SerializeToString(),
            refused=False,
        ),
        Request(
            "friendly-peek",
            "Peek",
            lambda s: pb.PeekRequest(subscriber="history/all", max=int(1_000_000 * s)).SerializeToString(),
            refused=False,
        ),
        Request("http-lines", NDJSON, lambda s: b"1\n" * (int(FULL * s) // 2), door="http"),
        Request("http-empty-lines", NDJSON, lambda s: b"12\n\n" * (int(FULL * s) // 4), door="http"),
        Request("http-tiny", NDJSON, lambda s: b"1\n" * int(TINY * s), refused=False, door="http"),
        Request("http-json", NDJSON, _json_text, refused=False, door="http", queue="json"),
        Request("http-document", "application/json", _document, refused=False, door="http"),
        Request("http-dictionary", ARROW, _dictionary_stream, door="http"),
        Request("ws-empty-elements", "Push", _empty, door="websocket"),
        Request("ws-tiny-elements", "Push", _tiny, refused=False, door="websocket"),
        Request("ws-json", "Push", _json, refused=False, door="websocket"),
    )
}  # fmt: skip


@dataclass
class Figures:
    """What a drill measured."""

    seconds: list[float] = field(default_factory=list)  # of each push of the healthy client
    before: int = 0  # memory of the server's process, in bytes …
    peak: int = 0
    after: int = 0
    sent: int = 0  # requests that were answered

    def part(self, share: float) -> float:
        """The time within which this share of the pushes was done."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    def line(self, name: str) -> str:
        ms = [f"{1_000 * value:8.1f}" for value in (self.part(0.5), self.part(0.99), max(self.seconds))]
        mb = [
            f"{value / MIB:7.0f}"
            for value in (self.before, self.peak - self.before, self.after - self.before)
        ]
        return f"{name:20} {self.sent:6} {len(self.seconds):6} {' '.join(ms)} {' '.join(mb)}"


TITLE = "request                sent pushes   p50 ms      p99      max  anon MB  grown   stays"


async def never_read(address: str, raw: bytes, count: int, seconds: float) -> int:
    """Open so many streams, over all connections, and read none of them; then hang up."""
    channels = [grpc.aio.insecure_channel(address, OPTIONS) for _ in range(CONNECTIONS)]
    methods: list[Any] = [channel.unary_stream("/jjq.v1.Jjq/Read") for channel in channels]
    calls = [methods[n % CONNECTIONS](raw) for n in range(count)]
    await asyncio.sleep(seconds)
    for call in calls:
        call.cancel()
    for channel in channels:
        await channel.close()
    return len(calls)


async def attack(address: str, request: Request, scale: float, rounds: int) -> int:
    """Send `request` so often over each of all connections, one at a time; how many were answered."""
    raw = request.build(scale)
    if request.door != "grpc":
        send = (
            partial(doors.post, address, request.queue)
            if request.door == "http"
            else partial(doors.call, address)
        )
        sent = [send(request.method, raw, rounds, refused=request.refused) for _ in range(CONNECTIONS)]
        return sum(await asyncio.gather(*sent))
    if request.method == "Read":
        return await never_read(address, raw, int(STREAMS * scale), SECONDS * rounds)

    async def one() -> int:
        answered = 0
        async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
            for _ in range(rounds):
                sent = (_sent(channel, request, raw) for _ in range(request.at_once))
                answered += sum(await asyncio.gather(*sent))
        return answered

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))


async def _sent(channel: Any, request: Request, raw: bytes) -> int:
    path = f"/jjq.v1.Jjq/{request.method}"
    try:
        if request.stream:
            call = channel.stream_stream(path)(timeout=120)
            await call.write(raw)
            reply = await call.read()
            if isinstance(reply, bytes) and b"elements" in reply:
                raise AssertionError(reply)
            call.cancel()
        else:
            await channel.unary_unary(path)(raw, timeout=120)
    except grpc.aio.AioRpcError as error:
        refusals = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
        if not request.refused or error.code() not in refusals:
            raise AssertionError(f"{request.name}: {error.code()} {error.details()}") from error
    return 1


@asynccontextmanager
async def healthy(address: str, figures: Figures) -> AsyncIterator[None]:
    """A client that pushes one element at a time, all the while."""
    clock, ended = SystemClock(), asyncio.Event()
    raw = pb.PushRequest(
        queue="healthy", elements=pb.Elements(elements=[pb.Element(value=b"a")])
    ).SerializeToString()

    async def push() -> None:
        async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
            call: Any = channel.unary_unary("/jjq.v1.Jjq/Push")
            while not ended.is_set():
                began = clock.monotonic()
                await call(raw, timeout=60)
                figures.seconds.append(clock.monotonic() - began)
                await asyncio.sleep(0.005)

    pushing = asyncio.create_task(push())
    try:
        yield
    finally:
        ended.set()
        await pushing


def taken(process: psutil.Process) -> int:
    """Memory of a process, without pages of files: of DuckDB's library 24 MB are touched when the catalog is first
    written, some seconds after the start, which has nothing to do with any request."""
    found = process.memory_info()
    return int(found.rss - found.shared)


@asynccontextmanager
async def watched(pid: int, figures: Figures, quiet_seconds: float) -> AsyncIterator[None]:
    """What the process takes before, at most, and once all is over; that within `quiet_seconds`."""
    process, ended = psutil.Process(pid), asyncio.Event()
    figures.before = figures.peak = taken(process)

    async def look() -> None:
        while not ended.is_set():
            figures.peak = max(figures.peak, taken(process))
            await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        ended.set()
        await looking
        clock = SystemClock()
        until = clock.monotonic() + quiet_seconds
        figures.after = taken(process)
        while clock.monotonic() < until and figures.after > figures.before + 20 * MIB:
            await asyncio.sleep(0.1)
            figures.after = min(figures.after, taken(process))


async def prepare(address: str, count: int) -> None:
    """The queues that the requests name; one of them has a history of tiny elements."""
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        create: Any = channel.unary_unary("/jjq.v1.Jjq/CreateQueue")
        for queue in ("greedy", "healthy", "history"):
            await create(pb.CreateQueueRequest(name=queue).SerializeToString())
        await create(pb.CreateQueueRequest(name="json", content="CONTENT_JSON").SerializeToString())
        batch = pa.RecordBatch.from_arrays([pa.array([b"x"] * (count // 2))], ["value"])
        push: Any = channel.unary_unary("/jjq.v1.Jjq/Push")
        for _ in range(2):
            await push(arrow(batch, "history"))
        subscribe: Any = channel.unary_unary("/jjq.v1.Jjq/CreateSubscriber")
        wanted = pb.CreateSubscriberRequest(queue="history", name="all", start="beginning")
        await subscribe(wanted.SerializeToString())


@contextmanager
def attackers(address: str, name: str, scale: float, rounds: int) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "tests.jjq.server.greedy",
        "attack",
        address,
        name,
        str(scale),
        str(rounds),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def drill(
    server: OpenServer, name: str, scale: float, rounds: int, quiet_seconds: float = 10.0
) -> Figures:
    """One request against a server that runs."""
    figures = Figures()
    await prepare(server.address, int(PREPARED * scale))
    warm = Figures()
    async with healthy(server.address, warm):
        await until(lambda: len(warm.seconds) >= 50, 60)
    async with watched(server.process.pid, figures, quiet_seconds), healthy(server.address, figures):
        address = server.address if REQUESTS[name].door == "grpc" else server.http
        with attackers(address, name, scale, rounds) as process:
            output, _ = await asyncio.to_thread(process.communicate)
            if process.returncode:
                raise AssertionError(f"the attackers failed: {output}")
            figures.sent = int(output)
    return figures


class OpenServer(JjqServer):
    """A server with all its doors."""

    def __init__(self, folder: Path) -> None:
        self.http = f"127.0.0.1:{free_ports(1)[0]}"
        super().__init__(folder, environment={"JJQ_HTTP_LISTEN": self.http})


def main(names: list[str]) -> None:
    if names[:1] == ["attack"]:
        address, name, scale, rounds = names[1:]
        print(asyncio.run(attack(address, REQUESTS[name], float(scale), int(rounds))))
        return
    print(TITLE)
    for name in names or list(REQUESTS):
        with tempfile.TemporaryDirectory() as folder, OpenServer(Path(folder)) as server:
            print(asyncio.run(drill(server, name, 1.0, 3)).line(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
