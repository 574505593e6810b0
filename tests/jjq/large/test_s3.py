"""Large objects on S3 servers: lost requests and replies, kill -9, HTTP; and nodes that end in the middle of one."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import io
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import jjq
from coldstore.layout import paths
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import OBJECT_CHUNK_BYTES, PART_BYTES
from coldstore.shared.push import Push
from hotstore.large.port import large_of
from jjq.client.large.sending import ObjectToSend, send_object
from tests.jjq.cluster.members import real_cluster
from tests.servers.faultproxy import FaultProxy
from tests.servers.jjq_server import JjqServer
from tests.servers.s3 import S3Server
from tests.servers.waiting import free_ports, wait_until

DATA = b"a" * PART_BYTES + b"b" * PART_BYTES + b"rest"
SHA = hashlib.sha256(DATA).hexdigest()


def start(folder: Path, s3: S3Server, prefix: str, **environment: str) -> JjqServer:
    place = {
        "JJQ_S3_ENDPOINT": s3.endpoint,
        "JJQ_S3_ACCESS_KEY": s3.access_key,
        "JJQ_S3_SECRET_KEY": s3.secret_key,
    }
    flags = ("--cold", f"s3://{s3.bucket}/{prefix}", "--lease-seconds", "1")
    return JjqServer(folder, *flags, environment={**place, **environment})


def nothing_is_left(objects: ObjectStore, queue: str = "q") -> None:
    """One object, and neither parts nor notes, which go in the background."""
    key = paths.large(queue, SHA)
    assert [info.key for info in objects.list(paths.large_folder(queue))] == [key]
    wait_until(lambda: not list(objects.list(paths.upload_folder(queue))), "the note is gone", 20)
    assert list(parts_of(objects).open_uploads(key)) == []


def test_lost_requests_and_replies_at_every_part_cost_nothing_but_time(
    tmp_path: Path, seaweed: S3Server, proxy: FaultProxy
) -> None:
    prefix = f"t-{SystemChance().token()}"
    faults: list[Callable[[str], None]] = [
        lambda key: proxy.lose_request(method="PUT", prefix=key, nth=1),
        lambda key: proxy.lose_reply(method="PUT", prefix=key, nth=2),
        lambda key: proxy.lose_request(method="PUT", prefix=key, nth=3),
        lambda key: proxy.fail(503, "SlowDown", method="PUT", prefix=key, times=3),  # each of the parts
        lambda key: proxy.lose_reply(method="POST", prefix=key, nth=1),  # begun, and not known
        lambda key: proxy.lose_request(method="POST", prefix=key, nth=2),
        lambda key: proxy.lose_reply(method="POST", prefix=key, nth=2),  # complete, and not known
    ]
    with (
        start(tmp_path, seaweed.at(proxy.endpoint), prefix) as server,
        jjq.connect(server.address) as client,
    ):
        for count, fault in enumerate(faults):
            queue = f"q{count}"
            client.create_queue(queue)
            key = f"{prefix}/{paths.large(queue, SHA)}"
            proxy.reset()
            fault(key)
            receipt = client.push_file(queue, io.BytesIO(DATA))

            seen = [each for each in proxy.seen if each.key == key and each.answered != 200]
            assert [each for each in seen if each.method in {"PUT", "POST"}], f"fault {count} was not met"
            assert (receipt.first_offset, receipt.count) == (0, 1)
            [element] = client.replay(queue).elements()
            proxy.truncate(1_000, method="GET", prefix=key, nth=2)
            assert element.read() == DATA
            nothing_is_left(seaweed.objects(prefix), queue)


@pytest.mark.parametrize(
    "point",
    ["object.part_put:1", "object.part_put:3", "object.complete", "object.completed"],
)
def test_kill_nine_at_any_step(point: str, tmp_path: Path, seaweed: S3Server) -> None:
    prefix = f"t-{SystemChance().token()}"
    name, _, nth = point.partition(":")
    failing = start(tmp_path, seaweed, prefix, JJQ_FAILPOINTS=f"{name}:{nth or 1}:kill")
    with failing:
        with jjq.connect(failing.address) as client:
            client.create_queue("q")
        with jjq.connect(failing.address, timeout=2.0) as client, pytest.raises(jjq.Unavailable):
            client.push_file("q", io.BytesIO(DATA))
        failing.process.wait(20)

    with start(tmp_path, seaweed, prefix) as again, jjq.connect(again.address) as client:
        before = list(client.replay("q").elements())
        assert all(element.read() == DATA for element in before)
        client.push_file("q", io.BytesIO(DATA))
        *_, last = client.replay("q").elements()
        assert (last.offset, last.read()) == (len(before), DATA)
        nothing_is_left(seaweed.objects(prefix))


@pytest.mark.parametrize("http", ["127.0.0.1:0", "none"])
def test_client_and_server_over_moto(tmp_path: Path, moto: S3Server, http: str) -> None:
    prefix = f"t-{SystemChance().token()}"
    with start(tmp_path, moto, prefix, JJQ_HTTP_LISTEN=http) as server, jjq.connect(server.address) as client:
        client.create_queue("q")
        client.push_file("q", io.BytesIO(DATA))
        [element] = client.replay("q").elements()
        assert element.read() == DATA
        with element.open() as file:
            assert file.seek(PART_BYTES - 1) == PART_BYTES - 1
            assert file.read(2) == b"ab"
        element.save(tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == DATA
        nothing_is_left(moto.objects(prefix))


def test_put_and_get_with_ranges_over_http_on_seaweed(tmp_path: Path, seaweed: S3Server) -> None:
    prefix, port = f"t-{SystemChance().token()}", free_ports(1)[0]

    def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        web = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with closing(web):
            web.request(method, f"/v1/queues/{path}", body, headers)
            reply = web.getresponse()
            return reply.status, reply.read()

    with start(tmp_path, seaweed, prefix, JJQ_HTTP_LISTEN=f"127.0.0.1:{port}"):
        assert ask("PUT", "q")[0] == 200
        assert ask("PUT", f"q/objects/{SHA}", DATA)[0] == 200
        assert ask("PUT", f"q/objects/{SHA}", DATA[:-1])[0] == 400
        named = b'{"sha256": "%b", "size": %d}' % (SHA.encode(), len(DATA))
        assert ask("POST", "q/references", named, **{"Content-Type": "application/json"})[0] == 200
        for place in ("q/elements/0/object", f"q/objects/{SHA}?size={len(DATA)}"):
            assert ask("GET", place) == (200, DATA)
            assert ask("GET", place, Range=f"bytes={PART_BYTES - 1}-{PART_BYTES}") == (206, b"ab")
            assert ask("GET", place, Range="bytes=5-") == (206, DATA[5:])
            assert ask("GET", place, Range=f"bytes={len(DATA)}-")[0] == 416
        nothing_is_left(seaweed.objects(prefix))


def test_kill_nine_in_the_middle_of_an_upload_and_another_node_takes_over(
    tmp_path: Path, seaweed: S3Server
) -> None:
    prefix = f"t-{SystemChance().token()}"
    place = {"JJQ_S3_ACCESS_KEY": seaweed.access_key, "JJQ_S3_SECRET_KEY": seaweed.secret_key}
    flags = (
        "--cold", f"s3://{seaweed.bucket}/{prefix}", "--s3-endpoint", seaweed.endpoint, "--journal", "s3",
        "--lease-seconds", "2", "--http-listen", "127.0.0.1:0",
    )  # fmt: skip
    failing = {"JJQ_FAILPOINTS": "object.part_put:2:kill", **place}
    a = JjqServer(tmp_path / "a", "--node", "a", *flags, environment=failing)
    b = JjqServer(tmp_path / "b", "--node", "b", *flags, environment=place)
    with a:
        with jjq.connect(a.address) as client:
            client.create_queue("q")  # while there is nobody else: it is the node that is going to die
        with b, jjq.connect(f"{a.address},{b.address}", timeout=60.0) as client:
            receipt = client.push_file("q", io.BytesIO(DATA))
            assert a.process.wait(20) == -signal.SIGKILL
            assert (receipt.first_offset, receipt.count) == (0, 1)
            [element] = client.replay("q").elements()
            assert element.read() == DATA
            nothing_is_left(seaweed.objects(prefix))


async def test_an_upload_goes_on_at_another_node_from_the_beginning(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as nodes:
        client = await nodes.client("a", "b")
        await client.create_queue("q")
        source = ObjectToSend(DATA)
        plain, sent = source.read_at, []
        loop = asyncio.get_running_loop()

        def read_and_stop(at: int) -> bytes:
            """In the middle of the first upload its node goes away."""
            if at == PART_BYTES + OBJECT_CHUNK_BYTES and at not in sent:
                asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
            sent.append(at)
            return plain(at)

        async def stop() -> None:
            taking = [node for node in nodes.nodes.values() if node.member and uploads(node.member)]
            assert len(taking) == 1
            await taking[0].stop()

        source.read_at = read_and_stop  # type: ignore[method-assign]
        await send_object(large_of(client), "q", source, SystemClock(), SystemChance(), 30.0)
        receipt = await client.append(
            Push("q", payload("bytes", [b""]), objects=((0, ObjectRef(SHA, len(DATA))),))
        )

        assert sent.count(0) > 1
        assert receipt.first_offset == 0
        assert (await client.get_queue("q")).next_offset == 1
        pieces = [piece async for piece in large_of(client).read_object("q", SHA, len(DATA))]
        assert b"".join(pieces) == DATA


def uploads(member: object) -> int:
    """How many are under way at a node."""
    return len(member.engine.large._sessions)  # type: ignore[attr-defined]
