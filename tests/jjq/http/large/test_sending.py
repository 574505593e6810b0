"""Files and references in one request, and uploads that are cut and go on."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coldstore.shared.limits import MIB, PART_BYTES
from hotstore.settings import HotSettings
from jjq.http.large import sending
from jjq.limits import HTTP_BODY_SECONDS
from tests.jjq.http.asking import Said, Web, web_over
from tests.jjq.serving import hot_store, until

LARGE = bytes(range(256)) * (PART_BYTES // 256) + b"the end"
SHA = hashlib.sha256(LARGE).hexdigest()
FILES = "/v1/queues/photos/files"
UPLOADS = "/v1/queues/photos/uploads"


async def pushed(web: Web, offset: int = 0) -> Any:
    said = await web.ask(
        "GET", f"/v1/queues/photos/elements?start=offset:{offset}&limit=1", Accept="application/json"
    )
    [element] = said.json["elements"]
    return element


async def read(web: Web, offset: int = 0) -> bytes:
    return (await web.ask("GET", f"/v1/queues/photos/elements/{offset}/object")).body


@asynccontextmanager
async def web_of(folder: Path, **limits: Any) -> AsyncIterator[Web]:
    async with hot_store(folder, settings=HotSettings(**limits)) as store, web_over(store) as web:
        await web.send("PUT", "/v1/queues/photos")
        yield web


@pytest.mark.parametrize("query", ["name=a/b/cat.png&key=cat", f"name=cat.png&key=cat&sha256={SHA}"])
async def test_a_file_is_pushed_in_one_request(photos: Web, query: str) -> None:
    said = await photos.ask("POST", f"{FILES}?{query}", LARGE, Idempotency_Key="one")
    assert (said.status, said.json["count"]) == (200, 1)
    element = await pushed(photos)
    assert element["key"] == "cat"
    assert "cat.png" in str(element["headers"])
    assert await read(photos) == LARGE
    again = await photos.ask("POST", f"{FILES}?{query}", LARGE, Idempotency_Key="one")
    assert again.json["duplicate"] is True


async def test_the_type_is_said_or_follows_from_the_name(photos: Web) -> None:
    for kind, name in (("image/webp", "a.png"), ("application/x-www-form-urlencoded", "a.png"), ("", "a")):
        said = {"Content_Type": kind} if kind else {}
        assert (await photos.ask("POST", f"{FILES}?name={name}", b"x", **said)).status == 200
    found = [(await photos.ask("HEAD", f"/v1/queues/photos/elements/{n}/object")).headers for n in range(3)]
    assert [each["content-type"] for each in found] == ["image/webp", "image/png", "application/octet-stream"]


async def test_chunks_of_an_unknown_number_and_no_bytes_at_all(photos: Web) -> None:
    head = b"POST %b?name=a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" % FILES.encode()
    said = await photos.talk(head + b"Connection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200")
    assert await read(photos) == b"abcde"
    assert (await photos.ask("POST", FILES, b"", Content_Length="0")).status == 200
    assert await read(photos, 1) == b""


async def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    async with web_of(tmp_path, object_bytes_max=100, queue_objects_bytes_max=150) as web:
        assert (await web.ask("POST", FILES, bytes(101))).status == 413
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n"
        before = await web.talk(head % FILES.encode(), closes=False)
        assert before.startswith(b"HTTP/1.1 413")  # before a byte of it was sent
        chunked = (
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n%b\r\n0\r\n\r\n"
        )
        assert b"413" in (await web.talk(chunked % (FILES.encode(), bytes(101)), closes=False))
        document = {"sha256": SHA, "size": 101}
        assert (await web.send("POST", UPLOADS, document)).status == 413
        assert (await web.ask("POST", FILES, bytes(100))).status == 200
        assert (await web.ask("POST", FILES, b"y" * 100)).status == 429  # the quota of the queue
        await refusals(web)


async def refusals(web: Web) -> None:
    wrong = hashlib.sha256(b"other").hexdigest()
    cases: list[tuple[int, Said]] = [
        (404, await web.ask("POST", "/v1/queues/nowhere/files", b"x")),
        (400, await web.ask("POST", f"{FILES}?sha256=abc", b"x")),
        (400, await web.ask("POST", f"{FILES}?sha256={wrong}", b"x")),
        (400, await web.ask("POST", f"{FILES}?colour=red", b"x")),
        (415, await web.ask("POST", FILES, b"x", Content_Type="multipart/form-data; boundary=x")),
        (411, await web.ask("PUT", f"/v1/queues/photos/objects/{wrong}", None, Transfer_Encoding="chunked")),
        (400, await web.ask("PUT", f"/v1/queues/photos/objects/{wrong}", b"x")),
        (400, await web.send("POST", "/v1/queues/photos/references", {"uri": "gopher://x/y"})),
        (422, await web.send("POST", "/v1/queues/photos/references", {"sha256": wrong})),
        (400, await web.ask("PATCH", f"{UPLOADS}/none-0", b"x")),
        (404, await web.ask("PATCH", f"{UPLOADS}/none-0", b"x", Upload_Offset="0")),
        (404, await web.ask("POST", f"{UPLOADS}/none-0/finish")),
    ]
    assert [(want, said.status) for want, said in cases] == [(want, want) for want, _ in cases]
    missing = await web.send("POST", "/v1/queues/photos/references", {"sha256": wrong, "size": 5})
    assert (missing.status, missing.json["code"]) == (404, "NOT_FOUND")


async def test_an_upload_that_is_cut_goes_on_where_it_was(photos: Web) -> None:
    state = (await photos.send("POST", UPLOADS, {"sha256": SHA, "size": len(LARGE)})).json
    assert (state["received"], state["done"]) == (0, False)
    cut = MIB + 5
    head = b"PATCH %b HTTP/1.1\r\nHost: localhost\r\nUpload-Offset: 0\r\nContent-Length: %d\r\n\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", photos.port)
    writer.write(head % (f"{UPLOADS}/{state['upload']}".encode(), len(LARGE)) + LARGE[:cut])
    await writer.drain()
    writer.close()
    [session] = photos.store._large._sessions.values()
    await until(lambda: session.received == cut)
    known = {"sha256": SHA, "size": len(LARGE), "upload": state["upload"]}
    state = (await photos.send("POST", UPLOADS, known)).json
    assert (state["received"], state["done"]) == (cut, False)
    place = f"{UPLOADS}/{state['upload']}"
    wrong = await photos.ask("PATCH", place, b"x", Upload_Offset="9")
    assert (wrong.status, wrong.json["code"]) == (409, "CONFLICT")
    rest = await photos.ask("PATCH", place, LARGE[cut:], Upload_Offset=str(cut))
    assert rest.json["received"] == len(LARGE)
    assert (await photos.ask("POST", f"{place}/finish")).json["done"] is True
    named = {"sha256": SHA, "size": len(LARGE), "name": "a.bin", "key": "k", "headers": {"h": "1"}}
    assert (await photos.send("POST", "/v1/queues/photos/references", named)).status == 200
    assert await read(photos) == LARGE
    assert (await photos.send("POST", UPLOADS, {"sha256": SHA, "size": len(LARGE)})).json["done"] is True


async def test_only_so_many_files_are_on_disk_at_a_time(photos: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "HTTP_SPOOLS_MAX", 0)
    said = await photos.ask("POST", FILES, b"x")
    assert (said.status, "sha256=" in said.json["detail"]) == (429, True)
    digest = hashlib.sha256(b"x").hexdigest()
    assert (await photos.ask("POST", f"{FILES}?sha256={digest}", b"x")).status == 200


async def test_a_client_is_not_blamed_for_an_object_store_that_is_slow(
    photos: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = photos.store.upload
    seen: list[float] = []

    async def slow(upload: str, at: int, data: bytes) -> None:
        if not seen:
            connection: Any = next(iter(photos.listener._state.connections))
            await until(lambda: connection.flow.read_paused)
            seen.append(connection._body_until - connection.loop.time())
            connection._late()  # as its timer does after so long without a byte
        await asked(upload, at, data)

    monkeypatch.setattr(photos.store, "upload", slow)

    said = await photos.ask("POST", f"{FILES}?sha256={SHA}", LARGE)

    assert (said.status, len(seen)) == (200, 1)
    assert seen[0] > HTTP_BODY_SECONDS  # for its size, it has longer than other bodies
