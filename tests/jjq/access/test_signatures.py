"""Signed queues: right, missing, wrong, old and repeated signatures, at both doors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import grpc
import pytest

import jjq
from coldstore.shared.clock import ManualClock, SystemClock
from jjq import aio
from jjq.access import signatures
from jjq.access.signatures import Signatures, sign
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.access.keyed import keyed

SECRET = "5" * 64


def test_a_signature_is_taken_once_and_in_time() -> None:
    clock = ManualClock()
    taken = Signatures(clock)
    header = sign(SECRET, b"body", clock.now_us())
    taken.check("q", SECRET, header, b"body")
    with pytest.raises(jjq.Denied, match="accepted before"):
        taken.check("q", SECRET, header, b"body")
    with pytest.raises(jjq.Denied, match="is wrong"):
        taken.check("q", SECRET, sign(SECRET, b"body", clock.now_us()), b"other")
    with pytest.raises(jjq.Denied, match="is wrong"):
        taken.check("q", "6" * 64, sign(SECRET, b"body", clock.now_us()), b"body")
    for away in (-301, 301):
        with pytest.raises(jjq.Denied, match="away from the server"):
            taken.check("q", SECRET, sign(SECRET, b"x", clock.now_us() + away * 1_000_000), b"x")
    for wrong in (None, "", "t=1", "t=1,v1=zz", "v1=" + "0" * 64):
        with pytest.raises(jjq.Denied):
            taken.check("q", SECRET, wrong, b"x")


def test_what_is_remembered_is_bounded_and_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "SIGNATURES_MAX", 3)
    clock = ManualClock()
    taken = Signatures(clock)
    for number in range(3):
        taken.check("q", SECRET, sign(SECRET, b"%d" % number, clock.now_us()), b"%d" % number)
    with pytest.raises(jjq.Denied, match="more signed pushes"):
        taken.check("q", SECRET, sign(SECRET, b"9", clock.now_us()), b"9")
    clock.advance(601)
    taken.check("q", SECRET, sign(SECRET, b"9", clock.now_us()), b"9")


async def test_both_doors_want_the_signature_over_the_bytes_as_they_come(tmp_path: Path) -> None:
    clock = SystemClock()
    async with keyed(tmp_path) as doors:
        await doors.store.create_queue("orders")
        await doors.store.create_queue("open")
        secret = (await doors.send("PUT", "/v1/queues/orders/signature")).json["secret"]
        assert secret not in str(doors.ring.every())

        async def push(body: bytes, header: str | None) -> int:
            shown = {} if header is None else {"Jjq_Signature": header}
            path = "/v1/queues/orders/elements"
            return (await doors.ask("POST", path, body, Content_Type="application/x-ndjson", **shown)).status

        header = sign(secret, b"1\n2", clock.now_us())
        assert await push(b"1\n2", None) == 403
        assert await push(b"not json", header) == 403, "checked before it is decoded"
        assert await push(b"1\n2", header) == 200
        assert await push(b"1\n2", header) == 403, "a replay"

        call = doors.channel.unary_unary("/jjq.v1.Jjq/Push")
        elements = pb.Elements(elements=[pb.Element(value=b"3")])
        raw = pb.PushRequest(queue="orders", elements=elements).SerializeToString()
        await call(raw, metadata=(("jjq-signature", sign(secret, raw, clock.now_us())),))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(raw)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        async with aio.connect(doors.server.address) as client:
            await client.push("open", [b"x"])
            async with client.producer("open") as producer:
                await producer.push(b"y")
            with pytest.raises(jjq.Denied, match="signed"):
                await client.push("orders", [b"x"])
        assert (await doors.store.get_queue("orders")).next_offset == 3
        assert (await doors.send("DELETE", "/v1/queues/orders/signature")).status == 204
        assert await push(b"4", None) == 200


async def test_the_signature_of_a_file_is_over_its_digest(tmp_path: Path) -> None:
    clock, digest = SystemClock(), hashlib.sha256(b"picture").hexdigest()
    async with keyed(tmp_path) as doors:
        await doors.store.create_queue("photos")
        secret = (await doors.send("PUT", "/v1/queues/photos/signature")).json["secret"]
        for query in ("", f"?sha256={digest}"):
            path = f"/v1/queues/photos/files{query}"
            assert (await doors.ask("POST", path, b"picture")).status == 403
            header = sign(secret, digest.encode(), clock.now_us() - len(query) * 1_000_000)
            assert (await doors.ask("POST", path, b"other", Jjq_Signature=header)).status in {400, 403}
            header = sign(secret, digest.encode(), clock.now_us() - (len(query) + 2) * 1_000_000)
            assert (await doors.ask("POST", path, b"picture", Jjq_Signature=header)).status == 200
        assert (await doors.send("POST", "/v1/queues/photos/references", {"uri": "s3://b/k"})).status == 403
        assert (await doors.store.get_queue("photos")).next_offset == 2
