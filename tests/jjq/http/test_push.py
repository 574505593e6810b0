"""Push over HTTP: four forms, identities and conditions, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.limits import BATCH_ELEMENTS_MAX
from jjq.limits import INCOMING_BYTES_MAX, LARGE_BYTES
from jjq.wire import arrow_ipc
from tests.jjq.http.asking import Web
from tests.jjq.serving import until

ELEMENTS = "/v1/queues/orders/elements"
RAW = "/v1/queues/raw/elements"
NDJSON = "application/x-ndjson"


async def values_of(web: Web, queue: str) -> list[bytes]:
    found: list[bytes] = []
    async for batch in web.store.read(queue):
        found += batch.column("value").cast(pa.binary()).to_pylist()
    return found


async def test_json_elements_have_values_keys_and_headers(orders: Web) -> None:
    sent = {"elements": [{"value": {"n": 1}, "key": "k", "headers": {"source": "shop"}}, {"value": "text"}]}
    receipt = await orders.send("POST", ELEMENTS, sent)
    assert (receipt.status, receipt.json["first_offset"], receipt.json["count"]) == (200, 0, 2)
    assert receipt.json["stage"] == "synced"
    assert await values_of(orders, "orders") == [b'{"n": 1}', b'"text"']
    read = (await orders.ask("GET", ELEMENTS)).lines
    assert (read[0]["key"], read[0]["headers"], read[0]["value"]) == ("k", {"source": "shop"}, {"n": 1})


async def test_a_queue_of_bytes_takes_text_and_base64(orders: Web) -> None:
    coded = base64.b64encode(b"\xff\x00").decode()
    sent = {"elements": [{"value": "é"}, {"value_base64": coded, "key_base64": coded}]}
    assert (await orders.send("POST", RAW, sent)).status == 200
    assert await values_of(orders, "raw") == ["é".encode(), b"\xff\x00"]
    read = (await orders.ask("GET", RAW)).lines
    assert (read[1]["value_base64"], read[1]["key_base64"]) == (coded, coded)


UNFIT = [
    ({"value": 1}, "element 0: its value is '1'"),
    ({}, "neither value nor value_base64"),
    ({"value": "a", "value_base64": "YQ=="}, "both value and value_base64"),
    ({"value_base64": "?"}, "not base64"),
    ({"value": "a", "colour": "red"}, "colour"),
    ({"value": "a", "headers": {"n": 1}}, "headers"),
]


async def test_an_element_that_does_not_fit_is_422(orders: Web) -> None:
    for element, why in UNFIT:
        said = await orders.send("POST", RAW, {"elements": [element]})
        assert (said.status, why in said.json["detail"]) == (422, True), said.json
    assert await values_of(orders, "raw") == []


async def test_lines_are_kept_byte_by_byte(orders: Web) -> None:
    big = b'{"id":123456789012345678901234567890, "x" : 1.0}'
    body = b"\r\n".join([big, b' "spaces" ', b"", b"[1,2]", b""])
    receipt = await orders.ask("POST", ELEMENTS, body, Content_Type=NDJSON)
    assert receipt.json["count"] == 3
    assert await values_of(orders, "orders") == [big, b' "spaces" ', b"[1,2]"]


async def test_a_large_push_of_lines_needs_no_step_for_each(orders: Web) -> None:
    lines = [b'{"n":%d,"text":"some words"}' % n for n in range(100_000)]
    receipt = await orders.ask("POST", RAW, b"\n".join(lines) + b"\n", Content_Type=NDJSON)
    assert receipt.json["count"] == 100_000
    assert await values_of(orders, "raw") == lines


async def test_empty_lines_of_a_large_body_are_passed_over_in_steps(orders: Web) -> None:
    """As Python objects 2.3 million of them held up everybody for 0.7 s and took 200 MB."""
    lines = [b"%d" % n for n in range(60_000)]
    before = orders.server._scheduler.steps
    body = b"\n\r\n\n" + b"\r\n\n\n".join(lines) + b"\n\r\n"
    receipt = await orders.ask("POST", RAW, body, Content_Type=NDJSON)
    assert receipt.json["count"] == len(lines)
    assert await values_of(orders, "raw") == lines
    assert orders.server._scheduler.steps > before + 5


@pytest.mark.parametrize("line", [b"1\n", b"1\n\n"])
async def test_too_many_lines_are_counted_before_one_is_looked_at(
    orders: Web, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("jjq.http.v1.elements._suspects")  # nothing gets there
    said = await orders.ask("POST", RAW, line * (BATCH_ELEMENTS_MAX + 1), Content_Type=NDJSON)
    assert said.status == 400
    assert f"{BATCH_ELEMENTS_MAX + 1} lines" in said.json["detail"]


async def test_the_elements_of_a_large_document_are_read_in_steps(orders: Web) -> None:
    sent = [
        {"value": {"n": n}, "headers": {"n": str(n)}, **({"key": f"k{n}"} if n % 7 else {})}
        for n in range(8_000)
    ]
    before = orders.server._scheduler.steps
    for space in (None, 1):
        body = json.dumps({"elements": sent}, indent=space)
        said = await orders.ask("POST", ELEMENTS, body, Content_Type="application/json")
        assert (said.status, said.json["count"]) == (200, len(sent)), said.json
    assert orders.server._scheduler.steps > before + 2 * 8_000 / 1_000
    read = (await orders.ask("GET", f"{ELEMENTS}?limit=10000")).lines
    for place, element in enumerate(sent):
        got = {name: read[place][name] for name in element}
        assert got == element


@pytest.mark.parametrize(
    ("element", "why"),
    [
        ('{"value":1}', "element 7000: its value is '1'"),
        ('{"value":"a","value":"b"}', "occurs twice"),
        ('{"value":"a","colour":"red"}', "$.elements[7000]"),
        ('{"value":"a"}],"elements":[{"value":"b"}', "occurs twice"),
        ('{"value":"a"},', "JSON"),
        ('{"value":' + "[" * 63 + "]" * 63 + "}", "deep"),
    ],
    ids=["value", "twice", "field", "two lists", "comma", "depth"],
)
async def test_what_is_wrong_in_a_large_document_is_told_as_in_a_small_one(
    orders: Web, element: str, why: str
) -> None:
    few = ['{"value":"some text"}']
    body = '{"elements":[' + ",".join([*few * 7_000, element, *few]) + "]}"
    said = await orders.ask("POST", RAW, body, Content_Type="application/json")
    assert said.status in {400, 422}
    assert why in said.json["detail"]
    assert await values_of(orders, "raw") == []


async def test_a_large_body_waits_for_its_place_among_all_large_messages(orders: Web) -> None:
    large = orders.server._incoming.large
    for chunked in (False, True):
        place = large.hold(INCOMING_BYTES_MAX)
        body: Any = iter([bytes(LARGE_BYTES)] * 2) if chunked else bytes(2 * LARGE_BYTES)
        pushing = asyncio.create_task(orders.ask("POST", RAW, body, Content_Type="text/plain"))
        await until(lambda: bool(large._line))
        assert not pushing.done()
        place.leave()
        assert (await pushing).status == 200
        await until(lambda: large.bytes == 0)


async def test_arrow_and_raw_bytes(orders: Web) -> None:
    batch = payload("bytes", [b"a", b"b"], [b"k", None])
    said = await orders.ask(
        "POST", RAW, b"".join(arrow_ipc.encode(batch)), Content_Type="application/vnd.apache.arrow.stream"
    )
    assert said.json["count"] == 2
    said = await orders.ask(
        "POST", RAW, b"\x00\xff", Content_Type="application/octet-stream", Jjq_Key="customer"
    )
    assert said.json["first_offset"] == 2
    assert await values_of(orders, "raw") == [b"a", b"b", b"\x00\xff"]
    assert (await orders.ask("GET", f"{RAW}?start=offset:2")).lines[0]["key"] == "customer"


async def test_the_same_idempotency_key_is_written_once(orders: Web) -> None:
    ask = {"Content_Type": NDJSON, "Idempotency_Key": "order-7"}
    first = await orders.ask("POST", ELEMENTS, b"7", **ask)
    again = await orders.ask("POST", ELEMENTS, b"7", **ask)
    assert (first.json["duplicate"], again.json["duplicate"]) == (False, True)
    assert first.json["first_offset"] == again.json["first_offset"]
    other = await orders.ask("POST", ELEMENTS, b"8", **ask)
    assert (other.status, other.json["code"]) == (409, "CONFLICT")
    assert await values_of(orders, "orders") == [b"7"]


async def test_a_conditional_push_is_412_if_the_queue_went_on(orders: Web) -> None:
    ask = {"Content_Type": NDJSON, "Jjq_Expected_Offset": "0"}
    assert (await orders.ask("POST", ELEMENTS, b"1", **ask)).status == 200
    late = await orders.ask("POST", ELEMENTS, b"2", **ask)
    assert (late.status, await values_of(orders, "orders")) == (412, [b"1"])
    assert (late.json["code"], "nothing was written" in late.json["advice"]) == ("CONFLICT", True)


async def test_a_producer_that_counts_its_pushes(orders: Web) -> None:
    ask = {"Content_Type": NDJSON, "Jjq_Producer": "p"}
    for sequence in ("0", "1"):
        await orders.ask("POST", ELEMENTS, sequence, Jjq_Sequence=sequence, **ask)
    said = await orders.ask("POST", ELEMENTS, b"1", Jjq_Sequence="1", **ask)
    assert (said.json["duplicate"], await values_of(orders, "orders")) == (True, [b"0", b"1"])
    both = await orders.ask("POST", ELEMENTS, b"1", Idempotency_Key="x", Jjq_Sequence="2", **ask)
    assert both.status == 400


async def test_an_unknown_queue_is_404_and_says_what_to_do(web: Web) -> None:
    said = await web.ask("POST", "/v1/queues/none/elements", b"1", Content_Type=NDJSON)
    assert said.status == 404
    assert said.headers["content-type"] == "application/problem+json"
    assert said.json["code"] == "NOT_FOUND"
    assert said.json["advice"] == "create it, or correct the name"
    assert said.json["instance"].endswith(said.headers["x-request-id"])


WRONG = [
    (b'{"a":1,"a":2}', "line 2, column 8: the key 'a' occurs twice"),
    (b'{"a":{"b":1,"\\u0062":2}}', "occurs twice"),
    (b"NaN", "line 2, column 1: NaN is no JSON number"),
    (b'{"x":-Infinity}', "-Infinity is no JSON number"),
    (b"1 2", "line 2, column 3: Extra data"),
    (b'{"a":', "line 2, column 6"),
    (b"[" * 65 + b"]" * 65, "line 2, byte 64: objects and arrays are more than 64 deep"),
    (b"\xef\xbb\xbf1", "line 2, byte 0: it begins with a byte order mark"),
    (b'"\xff"', "line 2, byte 1: it is not UTF-8"),
    (b"1,2", "Extra data"),
    (b"[1", "line 2"),
    (b"'a'", "line 2, column 1"),
]


async def test_json_that_is_wrong_is_400_with_the_place(orders: Web) -> None:
    for line, place in WRONG:
        said = await orders.ask("POST", ELEMENTS, b"1\n" + line + b"\n3", Content_Type=NDJSON)
        assert (said.status, place in said.json["detail"]) == (400, True), (line, said.json)
        assert said.json["position"] == 1
    assert await values_of(orders, "orders") == []


RIGHT = [
    b"[" * 64 + b"]" * 64,
    b'{"a":"' + b"[" * 100 + b'"}',
    b'{"a\\u003a":1,"a":2}',
    b'{"a":":"}',
    b'["' + b"\\\\" * 3 + b'",[]]',
]


async def test_json_that_only_looks_wrong_is_accepted(orders: Web) -> None:
    said = await orders.ask("POST", ELEMENTS, b"\n".join(RIGHT), Content_Type=NDJSON)
    assert (said.status, await values_of(orders, "orders")) == (200, RIGHT), said.body


async def test_a_document_is_as_strict_as_lines(orders: Web) -> None:
    for body in (b'{"elements":[],"elements":[]}', b'{"elements":[{"value":{"a":1,"a":2}}]}', b"{} {}", b""):
        said = await orders.ask("POST", ELEMENTS, body, Content_Type="application/json")
        assert said.status in {400, 411, 422}, said.body
    empty = await orders.send("POST", ELEMENTS, {"elements": []})
    assert (empty.status, "empty" in empty.json["detail"]) == (400, True)


async def test_sizes_and_types_that_are_refused(orders: Web) -> None:
    large = json.dumps({"elements": [{"value": "x" * 2**20}]})
    assert (await orders.ask("POST", ELEMENTS, large, Content_Type="application/json")).status == 413
    assert (await orders.ask("POST", ELEMENTS, b"1", Content_Type="text/html")).status == 415
    zipped = await orders.ask("POST", ELEMENTS, b"1", Content_Type=NDJSON, Content_Encoding="gzip")
    assert zipped.status == 415
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n" % ELEMENTS.encode()
    )
    assert (await orders.talk(head + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 411")


async def test_a_trace_context_travels_with_the_elements(orders: Web) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    batch = b"".join(arrow_ipc.encode(payload("bytes", [b"c"])))
    sent = [
        (b"1\n2", NDJSON, "orders"),
        (b"a", "text/plain", "raw"),
        (batch, "application/vnd.apache.arrow.stream", "raw"),
        (b'{"elements":[{"value":"b"}]}', "application/json", "raw"),
    ]
    for body, kind, queue in sent:
        said = await orders.ask(
            "POST", f"/v1/queues/{queue}/elements", body, Content_Type=kind, traceparent=trace
        )
        assert said.status == 200, said.body
    for path in (ELEMENTS, RAW):
        assert {line["headers"]["traceparent"] for line in (await orders.ask("GET", path)).lines} == {trace}
    own = {"elements": [{"value": "x", "headers": {"source": "shop"}}]}
    await orders.send("POST", RAW, own, traceparent=trace)
    assert (await orders.ask("GET", f"{RAW}?start=offset:3")).lines[0]["headers"] == {"source": "shop"}
    for wrong in ("00-zz", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "ff" + trace[2:]):
        said = await orders.ask("POST", RAW, b"x", Content_Type="text/plain", traceparent=wrong)
        assert (said.status, "traceparent" in said.json["detail"]) == (400, True)
