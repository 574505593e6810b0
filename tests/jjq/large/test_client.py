"""Large objects through the client: in this process, and by a server; blocking, and with asyncio."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.shared.attachments import ObjectRef, Reference
from coldstore.shared.limits import MIB, PART_BYTES
from tests.servers.jjq_server import JjqServer

LARGE = bytes(range(256)) * (2 * PART_BYTES // 256) + b"the end"
SHA = hashlib.sha256(LARGE).hexdigest()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JjqServer]:
    with JjqServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(params=["embedded", "server"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[jjq.Client]:
    if request.param == "embedded":
        with jjq.open(tmp_path / "data") as made:
            yield made
    else:
        with jjq.connect(request.getfixturevalue("server").address) as made:
            yield made


@pytest.fixture
def queue(client: jjq.Client, request: pytest.FixtureRequest) -> str:
    name = f"q{abs(hash(request.node.name))}"
    client.create_queue(name)
    client.create_subscriber(name, "s", "beginning")
    return name


def only(client: jjq.Client, queue: str) -> Any:
    [element] = client.pop(f"{queue}/s", wait=10.0)
    return element


def test_a_file_is_pushed_and_read_in_every_way(client: jjq.Client, queue: str, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(LARGE)

    receipt = client.push_file(queue, path, key="cat")

    assert receipt.count == 1
    element = only(client, queue)
    assert (element.key, element.value) == (b"cat", b"")
    assert element.object == ObjectRef(SHA, len(LARGE), "image/png", "cat.png")
    assert element.reference is None
    assert element.read() == LARGE
    element.save(tmp_path / "copy.png")
    assert (tmp_path / "copy.png").read_bytes() == LARGE
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == ["cat.png", "copy.png"]
    with element.open() as file:
        assert file.seekable()
        assert file.seek(-7, io.SEEK_END) == len(LARGE) - 7
        assert file.read() == b"the end"
        assert file.seek(PART_BYTES - 2) == PART_BYTES - 2
        assert file.read(4) == LARGE[PART_BYTES - 2 : PART_BYTES + 2]
        file.seek(0)
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA


def test_every_way_to_elements_leads_to_the_object(client: jjq.Client, queue: str) -> None:
    client.push_file(queue, io.BytesIO(LARGE), media_type="model/x", name="../../etc/passwd")
    client.create_group(queue, "g")

    found = [
        client.peek(f"{queue}/s")[0],
        next(client.replay(queue).elements()),
        client.take(f"{queue}/g", wait=10.0)[0],
    ]
    with client.subscribe(f"{queue}/s") as subscription:
        found.append(next(subscription))

    for each in found:
        assert each.object == ObjectRef(SHA, len(LARGE), "model/x", "passwd")
        assert each.read() == LARGE


def test_a_long_value_becomes_an_object_and_short_ones_stay(client: jjq.Client, queue: str) -> None:
    long = b"v" * (MIB + 1)

    receipt = client.push(
        queue, [b"short", long, b"x" * MIB], keys=["a", "b", "c"], headers=[None, {"h": "1"}, None]
    )

    assert receipt.count == 3
    first, second, third = client.pop(f"{queue}/s", 3, wait=10.0)
    assert (first.value, first.object, first.read()) == (b"short", None, b"short")
    assert (second.key, second.value, second.headers["h"]) == (b"b", b"", b"1")
    assert second.object is not None
    assert second.object.size == MIB + 1
    assert second.read() == long
    assert third.value == b"x" * MIB


def test_values_of_json_stay_values_which_are_checked_and_files_are_objects(
    client: jjq.Client, queue: str
) -> None:
    client.create_queue(f"{queue}-json", content="json")
    client.create_subscriber(f"{queue}-json", "s", "beginning")
    text = '"' + "ä" * MIB + '"'

    client.push(f"{queue}-json", [text, "1"])
    client.push_file(f"{queue}-json", io.BytesIO(b"no JSON"))
    with pytest.raises(jjq.InvalidInput, match="JSON"):
        client.push(f"{queue}-json", ["1", text[:-1]])
    with pytest.raises(jjq.InvalidInput, match="push_file stores a larger one"):
        client.push(f"{queue}-json", ['"' + "x" * 9 * MIB + '"'])

    first, second, third = client.pop(f"{queue}-json/s", 4, wait=10.0)
    assert (first.value, second.value, third.value) == (text, "1", "null")
    assert first.object is None
    assert first.read().decode() == text
    assert third.read() == b"no JSON"


def test_a_stream_that_cannot_be_rewound_is_pushed(client: jjq.Client, queue: str) -> None:
    class Stream:
        def __init__(self) -> None:
            self.left = [b"one ", b"two"]

        def read(self, size: int) -> bytes:
            return self.left.pop(0) if self.left else b""

    client.push_file(queue, Stream())  # type: ignore[arg-type]

    assert only(client, queue).read() == b"one two"


@pytest.mark.parametrize("data", [b"", b"x"])
def test_the_smallest_objects(client: jjq.Client, queue: str, data: bytes) -> None:
    client.push_file(queue, io.BytesIO(data))

    element = only(client, queue)
    assert element.object.size == len(data)
    assert element.read() == data


def test_a_reference_is_kept_and_not_looked_at(client: jjq.Client, queue: str) -> None:
    client.push_reference(queue, "s3://bucket/model.bin", size=7, sha256=SHA, key="m", name="m.bin")

    element = only(client, queue)

    assert element.reference == Reference("s3://bucket/model.bin", 7, SHA, "", "m.bin")
    assert element.object is None
    with pytest.raises(jjq.NotFound, match=r"reference\.uri"):
        element.read()


@pytest.mark.parametrize(
    "uri", ["gopher://x/y", "model.bin", "javascript:1", "http://u:p@host/x", "s3:///x", "http://"]
)
def test_a_reference_to_nowhere_is_refused(client: jjq.Client, queue: str, uri: str) -> None:
    with pytest.raises(jjq.InvalidInput, match=r"scheme|password|place"):
        client.push_reference(queue, uri)


@pytest.mark.parametrize("header", ["jjq-object", "jjq-reference"])
def test_nobody_sets_the_headers_himself(client: jjq.Client, queue: str, header: str) -> None:
    with pytest.raises(jjq.InvalidInput, match="reserved"):
        client.push(queue, [b"x"], headers=[{header: b"{}"}])


def test_bad_input_is_named_at_once(client: jjq.Client, queue: str, tmp_path: Path) -> None:
    with pytest.raises(jjq.InvalidInput, match="correct the path"):
        client.push_file(queue, tmp_path / "missing")
    with pytest.raises(jjq.InvalidInput, match="opened for bytes"):
        client.push_file(queue, io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(jjq.InvalidInput, match="not a sha256"):
        client.push_reference(queue, "s3://b/k", sha256="abc")
    with pytest.raises(jjq.NotFound, match="no queue"):
        client.push_file("nowhere", io.BytesIO(b"x"))
    client.push_file(queue, io.BytesIO(b"x"))
    with pytest.raises(jjq.InvalidInput, match="is a folder"):
        only(client, queue).save(tmp_path)


def test_an_element_travels_without_its_connection(client: jjq.Client, queue: str) -> None:
    client.push_file(queue, io.BytesIO(b"x"))

    copy = pickle.loads(pickle.dumps(only(client, queue)))

    assert copy.object.size == 1
    with pytest.raises(jjq.InvalidInput, match="another process"):
        copy.read()


def test_a_missing_object_is_named_and_other_elements_go_on(tmp_path: Path) -> None:
    with jjq.open(tmp_path / "data") as client:
        client.create_queue("q")
        client.create_subscriber("q", "s", "beginning")
        client.push_file("q", io.BytesIO(LARGE))
        client.push_file("q", io.BytesIO(b"other"))
        place = tmp_path / "data" / "cold" / "queues" / "q" / "objects" / SHA
        first, second = client.pop("q/s", 2)
        damaged = bytearray(LARGE)
        damaged[5] ^= 1
        place.write_bytes(damaged)
        with pytest.raises(jjq.DataLoss, match=SHA):
            first.read()
        with pytest.raises(jjq.DataLoss, match=SHA):
            first.save(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

        place.unlink()

        with pytest.raises(jjq.DataLoss, match=f"{SHA} is gone"):
            first.read()
        assert second.read() == b"other"


def test_limits_are_told_before_bytes_are_sent(tmp_path: Path) -> None:
    settings = jjq.HotSettings(object_bytes_max=100, queue_objects_bytes_max=150)
    with jjq.open(tmp_path / "data", settings=settings) as client:
        client.create_queue("q")
        with pytest.raises(jjq.InvalidInput, match="object_bytes_max"):
            client.push_file("q", io.BytesIO(bytes(101)))
        client.push_file("q", io.BytesIO(bytes(100)))
        client.push_file("q", io.BytesIO(bytes(100)))  # the same bytes take no more room

        with pytest.raises(jjq.Exhausted, match="quota of 150"):
            client.push_file("q", io.BytesIO(b"y" * 100))


async def test_the_same_with_asyncio(tmp_path: Path) -> None:
    async with await jjq.aio.open(tmp_path / "data", object_bytes_min="1KiB") as client:
        await client.create_queue("q")
        await client.create_subscriber("q", "s", "beginning")
        await client.push_file("q", io.BytesIO(LARGE), name="a.bin")
        await client.push("q", [b"v" * 1025])

        first, second = await client.pop("q/s", 2)

        assert first.object is not None
        assert first.object.name == "a.bin"
        assert await first.read() == LARGE
        await first.save(tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == LARGE
        async with await first.open() as file:
            file.seek(3)
            assert await file.read(2) == LARGE[3:5]
        assert await second.read() == b"v" * 1025
