"""GET and HEAD of an object: ranges, conditions, and headers that no browser misunderstands."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.limits import PART_BYTES
from tests.jjq.http.asking import Web, web_over
from tests.jjq.serving import hot_store

DATA = bytes(range(256)) * 40
SHA = hashlib.sha256(DATA).hexdigest()
PLACE = "/v1/queues/photos/elements/0/object"


@pytest.fixture
async def cat(photos: Web) -> Web:
    said = await photos.ask("POST", "/v1/queues/photos/files?name=cat.png&key=cat", DATA)
    assert (said.status, said.json["first_offset"]) == (200, 0)
    return photos


async def test_all_of_it_says_what_it_is(cat: Web) -> None:
    said = await cat.ask("GET", PLACE)
    assert (said.status, said.body) == (200, DATA)
    assert said.headers["etag"] == f'"{SHA}"'
    assert said.headers["content-length"] == str(len(DATA))
    assert said.headers["content-type"] == "image/png"
    assert said.headers["content-disposition"] == 'inline; filename="cat.png"'
    assert said.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in said.headers["content-security-policy"]
    assert base64.b64decode(said.headers["repr-digest"].split(":")[1]).hex() == SHA
    head = await cat.ask("HEAD", PLACE)
    assert (head.status, head.body) == (200, b"")
    changing = {"x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in changing} == {
        k: v for k, v in said.headers.items() if k not in changing
    }


@pytest.mark.parametrize(
    ("asked", "first", "stop"),
    [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=10000-", 10_000, 10_240),
     ("bytes=-7", 10_233, 10_240), ("bytes=-99999", 0, 10_240), ("bytes=10239-99999", 10_239, 10_240)],
)  # fmt: skip
async def test_a_range_is_cut_out(cat: Web, asked: str, first: int, stop: int) -> None:
    said = await cat.ask("GET", PLACE, Range=asked)
    assert (said.status, said.body) == (206, DATA[first:stop])
    assert said.headers["content-range"] == f"bytes {first}-{stop - 1}/10240"


@pytest.mark.parametrize("asked", ["bytes=10240-", "bytes=-0", "bytes=99999-100000"])
async def test_a_range_after_the_end_is_refused_and_told_the_size(cat: Web, asked: str) -> None:
    said = await cat.ask("GET", PLACE, Range=asked)
    assert (said.status, said.headers["content-range"]) == (416, "bytes */10240")


@pytest.mark.parametrize("asked", ["bytes=9-5", "bytes=0-1,3-4", "lines=0-1", "bytes=x", "bytes=-"])
async def test_what_is_no_single_range_is_answered_by_all(cat: Web, asked: str) -> None:
    said = await cat.ask("GET", PLACE, Range=asked)
    assert (said.status, said.body) == (200, DATA)


async def test_conditions_compare_the_digest(cat: Web) -> None:
    known = await cat.ask("GET", PLACE, If_None_Match=f'"other", W/"{SHA}"')
    assert (known.status, known.body) == (304, b"")
    assert (await cat.ask("GET", PLACE, If_None_Match='"other"')).status == 200
    assert (await cat.ask("GET", PLACE, Range="bytes=0-1", If_Range=f'"{SHA}"')).status == 206
    assert (await cat.ask("GET", PLACE, Range="bytes=0-1", If_Range='"other"')).body == DATA


@pytest.mark.parametrize(
    ("kind", "name", "type_said", "disposition"),
    [("text/html", "a.html", "text/html", 'attachment; filename="a.html"'),
     ("image/svg+xml", "../x/a.svg", "image/svg+xml", 'attachment; filename="a.svg"'),
     ("text/plain; charset=utf-8", "", "text/plain; charset=utf-8", "inline"),
     ("no type", "b", "application/octet-stream", 'attachment; filename="b"'),
     ("application/pdf", 'k\u00e4"se;.pdf', "application/pdf",
      "attachment; filename=\"k__se_.pdf\"; filename*=UTF-8''k%C3%A4%22se%3B.pdf")],
)  # fmt: skip
async def test_a_browser_runs_nothing_of_it(
    photos: Web, kind: str, name: str, type_said: str, disposition: str
) -> None:
    document = {"uri": None, "sha256": SHA, "size": len(DATA), "media_type": kind, "name": name}
    assert (await photos.ask("PUT", f"/v1/queues/photos/objects/{SHA}", DATA)).status == 200
    assert (await photos.send("POST", "/v1/queues/photos/references", document)).status == 200
    said = await photos.ask("HEAD", PLACE)
    assert said.headers["content-type"] == type_said
    assert said.headers["content-disposition"] == disposition
    assert said.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_without_an_object_it_is_the_value(photos: Web) -> None:
    await photos.ask("POST", "/v1/queues/photos/elements", b"small", Content_Type="text/plain")
    await photos.send("POST", "/v1/queues/photos/references", {"uri": "s3://bucket/m.bin"})
    said = await photos.ask("GET", PLACE, Range="bytes=1-2")
    assert (said.status, said.body) == (206, b"ma")
    elsewhere = await photos.ask("GET", "/v1/queues/photos/elements/1/object")
    assert (elsewhere.status, "s3://bucket/m.bin" in elsewhere.json["detail"]) == (404, True)
    for place, status in (("2", 404), ("x", 400), ("99999999999999999999", 400)):
        assert (await photos.ask("GET", f"/v1/queues/photos/elements/{place}/object")).status == status


async def test_whoever_pops_reads_by_digest_and_size(cat: Web) -> None:
    place = f"/v1/queues/photos/objects/{SHA}"
    said = await cat.ask("GET", f"{place}?size={len(DATA)}", Range="bytes=1-3")
    assert (said.status, said.body) == (206, DATA[1:4])
    assert said.headers["content-disposition"] == "attachment"
    assert (await cat.ask("GET", f"{place}?size={len(DATA)}")).body == DATA
    other = f"/v1/queues/photos/objects/{'0' * 64}?size=1"
    assert [(await cat.ask("GET", each)).status for each in (place, other)] == [400, 404]


async def test_damage_is_never_given_out_as_whole(tmp_path: Path) -> None:
    large = DATA * (PART_BYTES // len(DATA) + 1)
    digest = hashlib.sha256(large).hexdigest()
    objects = MemoryObjects()
    async with hot_store(tmp_path, objects) as store, web_over(store) as web:
        await web.send("PUT", "/v1/queues/photos")
        await web.ask("POST", "/v1/queues/photos/files", large)
        assert (await web.ask("GET", PLACE)).body == large
        stored = paths.large("photos", digest)
        objects.put(stored, b"x" + large[1:])
        said = await web.talk(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % PLACE.encode())
        head, _, body = said.partition(b"\r\n\r\n")
        assert f"content-length: {len(large)}".encode() in head
        assert len(body) < len(large)
        objects.delete(stored)
        gone = await web.ask("GET", PLACE)
        assert (gone.status, digest in gone.json["detail"]) == (500, True)
