"""Spans of push, pop, take, ack, seal and cold reads: as they are made, and as a collector gets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import jjq
from coldstore.shared.chance import SystemChance
from coldstore.shared.limits import KIB
from hotstore.groups.values import GroupSettings
from jjq.http.serving import serve_http
from jjq.server.server import serve
from jjq.traces.spans import Traces
from jjq.traces.verbs import trace_store
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.http.asking import HERE, Web
from tests.jjq.serving import ANYWHERE, hot_store, served
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@dataclass
class Traced(Web):
    """A server whose spans are kept in memory."""

    exporter: InMemorySpanExporter
    channel: Any

    def spans(self, name: str) -> list[Any]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> Any:
        (found,) = self.spans(name)
        return found


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    exporter = InMemorySpanExporter()
    traces = Traces(SimpleSpanProcessor(exporter), "test")
    try:
        async with hot_store(tmp_path, spans=traces) as store:
            trace_store(store, traces)
            server = await serve(store, replace(ANYWHERE, traced=True))
            try:
                http = await serve_http(server, HERE, SystemChance())
                async with grpc.aio.insecure_channel(server.address) as channel:
                    await store.create_queue("orders", block_bytes=64 * KIB)
                    yield Traced(store, server, http, exporter, channel)
                await http.stop(0.5)
            finally:
                await server.stop(0.5)
    finally:
        traces.close()


def trace_id(span: Any) -> str:
    return f"{span.context.trace_id:032x}"


def parent_id(span: Any) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def links(span: Any) -> list[str]:
    return [f"{link.context.trace_id:032x}-{link.context.span_id:016x}" for link in span.links]


async def test_a_trace_goes_from_push_through_the_journal_to_take_and_ack(traced: Traced) -> None:
    await traced.send("POST", "/v1/queues/orders/groups", {"name": "g"})
    body = {"elements": [{"value": "a"}]}
    assert (await traced.send("POST", "/v1/queues/orders/elements", body, traceparent=PARENT)).status == 200
    push = traced.span("push orders")
    assert (trace_id(push), parent_id(push), push.kind) == (TRACE, SPAN, SpanKind.PRODUCER)
    assert dict(push.attributes) == {
        "messaging.system": "jjq", "messaging.operation.name": "push", "messaging.operation.type": "send",
        "messaging.destination.name": "orders", "messaging.batch.message_count": 1, "jjq.offset": 0,
    }  # fmt: skip
    assert (await traced.send("POST", "/v1/queues/orders/groups/g/take", {"max": 5})).json["tasks"]
    take = traced.span("take orders")
    assert (links(take), take.kind) == ([f"{TRACE}-{SPAN}"], SpanKind.CONSUMER)
    assert take.attributes["messaging.consumer.group.name"] == "g"
    order = {"tasks": [{"id": 0, "attempt": 1}]}
    assert (await traced.send("POST", "/v1/queues/orders/groups/g/ack", order)).json["changed"] == 1
    ack = traced.span("ack orders")
    assert (trace_id(ack), parent_id(ack), links(ack)) == (TRACE, SPAN, [f"{TRACE}-{SPAN}"])
    assert ack.attributes["messaging.operation.type"] == "settle"
    await traced.send("POST", "/v1/queues/orders/groups/g/take", {"max": 5})
    assert len(traced.spans("take orders")) == 1, "a take that finds nothing makes no span"


async def test_metadata_of_grpc_carries_the_trace_and_a_pop_is_linked_with_it(traced: Traced) -> None:
    push = pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=b"a")]))
    call, metadata = traced.channel.unary_unary, (("traceparent", PARENT),)
    await call("/jjq.v1.Jjq/Push")(push.SerializeToString(), metadata=metadata)
    await call("/jjq.v1.Jjq/Push")(push.SerializeToString())
    first, second = traced.spans("push orders")
    assert (trace_id(first), parent_id(first)) == (TRACE, SPAN)
    assert (parent_id(second), trace_id(second) != TRACE) == ("", True)
    await traced.store.create_subscriber("orders", "s", "beginning")
    pop = pb.PopRequest(subscriber="orders/s", max=5).SerializeToString()
    raw = await call("/jjq.v1.Jjq/Pop")(pop, metadata=metadata)
    carried = [
        element.headers["traceparent"].decode()[:-3]  # without flags
        for element in pb.PopResponse.FromString(raw).elements.elements
    ]
    own = f"{trace_id(second)}-{second.context.span_id:016x}"
    assert carried == [PARENT[:-3], f"00-{own}"]
    popped = traced.span("pop orders")
    assert (trace_id(popped), parent_id(popped), links(popped)) == (TRACE, SPAN, [f"{TRACE}-{SPAN}", own])
    assert popped.attributes["messaging.destination.subscription.name"] == "s"
    await call("/jjq.v1.Jjq/Push")(push.SerializeToString(), metadata=(("traceparent", "nonsense"),))
    assert parent_id(traced.spans("push orders")[-1]) == ""


async def test_a_cold_read_is_part_of_the_pop_that_waits_for_it_and_a_seal_has_a_span(traced: Traced) -> None:
    for _ in range(3):  # blocks that nobody reads leave memory when they are sealed
        await traced.ask("POST", "/v1/queues/orders/elements", b"x" * 70_000, Content_Type="text/plain")
        await traced.store.seal("orders")
    assert len(traced.spans("seal orders")) == 3
    await traced.store.create_subscriber("orders", "s", "beginning")
    said = await traced.send("POST", "/v1/queues/orders/subscribers/s/pop", {"max": 1}, traceparent=PARENT)
    assert len(said.json["elements"]) == 1
    popped = traced.span("pop orders")
    reads = [span for span in traced.spans("read_cold_block orders") if trace_id(span) == TRACE]
    assert f"{popped.context.span_id:016x}" in [parent_id(span) for span in reads]


async def test_an_error_ends_the_span_with_its_code_and_a_producer_keeps_its_elements(traced: Traced) -> None:
    missing = await traced.ask("POST", "/v1/queues/none/elements", b"a", Content_Type="text/plain")
    assert missing.status == 404
    failed = traced.span("push none")
    assert (failed.attributes["error.type"], failed.status.is_ok) == ("NOT_FOUND", False)
    said = [
        await traced.ask(
            "POST", "/v1/queues/orders/elements", b"a", Content_Type="text/plain", Idempotency_Key="once"
        )
        for _ in range(2)
    ]
    assert [each.json["duplicate"] for each in said] == [False, True]
    await traced.store.create_group("orders", "g", GroupSettings())
    order = {
        "tasks": [{"id": 0, "attempt": 1}],
        "pushes": [{"queue": "orders", "elements": [{"value": "b"}]}],
    }
    await traced.send("POST", "/v1/queues/orders/groups/g/take", {})
    assert (await traced.send("POST", "/v1/queues/orders/groups/g/complete", order)).status == 200
    assert traced.span("complete orders").attributes["messaging.consumer.group.name"] == "g"


@contextmanager
def collector(file: Path) -> Iterator[str]:
    """A collector as a process: where it listens."""
    command = [sys.executable, "-m", "tests.jjq.traces.collector", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def test_a_server_sends_its_spans_to_a_collector(tmp_path: Path) -> None:
    file = tmp_path / "spans.ndjson"
    file.touch()
    fast = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
    with (
        collector(file) as url,
        JjqServer(tmp_path / "server", "--traces", url, environment=fast) as server,
        jjq.connect(server.address) as client,
    ):
        client.create_queue("orders")
        sub = client.create_subscriber("orders", name="s", start="beginning")
        client.push("orders", [b"a", b"b"])
        assert client.pop(sub, max=5, wait=10)[0].headers["traceparent"]

        def names() -> set[str]:
            return {json.loads(line)["name"] for line in file.read_text().splitlines()}

        wait_until(lambda: {"push orders", "pop orders"} <= names(), "the spans have arrived", 30)
        client.seal("orders")
        assert server.stop() == 0
        spans = [json.loads(line) for line in file.read_text().splitlines()]
    assert {span["service"] for span in spans} == {"jjq"}
    assert "seal orders" in {span["name"] for span in spans}, "what is left is sent at the end"


@pytest.mark.parametrize("wrong", ["4318", "ftp://x", "http://"])
def test_what_is_no_collector_is_refused(wrong: str) -> None:
    from jjq.traces.context import check_collector

    with pytest.raises(jjq.InvalidInput, match="write the address of a collector"):
        check_collector(wrong)


def test_nothing_of_opentelemetry_is_loaded_where_traces_are_off() -> None:
    code = (
        "import sys, jjq.node.serving, jjq.http.serving, jjq.server.server; "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


async def test_a_refusal_over_grpc_is_logged_with_the_number_of_its_request(tmp_path: Path) -> None:
    seen = structlog.testing.LogCapture()
    log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[seen])
    async with hot_store(tmp_path) as store, served(store, log=log) as jjq_:
        with pytest.raises(grpc.aio.AioRpcError):
            await jjq_.raw("GetQueue")(
                pb.GetQueueRequest(name="none").SerializeToString(), metadata=(("x-request-id", "number-7"),)
            )
    (refused,) = [entry for entry in seen.entries if entry["event"] == "refused"]
    assert (refused["request"], refused["code"]) == ("number-7", "NOT_FOUND")
