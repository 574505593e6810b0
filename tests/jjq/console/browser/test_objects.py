"""The objects of elements: pictures are shown, everything else can be saved, and nothing of it runs."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + b"\x20\x80\x40" * width for _ in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def test_a_picture_is_shown_and_other_objects_are_saved(stage: Stage, visit: Visit, tmp_path: Path) -> None:
    stage.ask("PUT", "queues/pictures")
    stage.ask("POST", "queues/pictures/files?name=cat.png", png(40, 30), media_type="image/png")
    page = b"<script>document.title = 'it ran'</script>"
    stage.ask("POST", "queues/pictures/files?name=page.html", page, media_type="text/html")
    stage.ask("POST", "queues/pictures/files?name=a.svg", b"<svg/>", media_type="image/svg+xml")

    console = visit(stage).open("/queues/pictures", "pictures")
    element = console.page.locator(".element")
    links = console.region("Elements, newest first").locator("tbody .link")
    links.nth(2).click()
    picture = element.get_by_role("img", name="cat.png")
    expect(picture).to_have_js_property("naturalWidth", 40)
    assert (picture.get_attribute("src") or "").startswith("blob:")
    console.sees(re.compile("image/png"), inside=element)

    for at, name, content in ((1, "page.html", page), (0, "a.svg", b"<svg/>")):
        links.nth(at).click()
        console.sees(re.compile(name), inside=element)
        expect(element.get_by_role("img", name=name)).to_have_count(0)
        with console.page.expect_download() as saving:
            element.get_by_role("button", name="Save").click()
        assert saving.value.suggested_filename == name
        assert Path(saving.value.path()).read_bytes() == content
    console.check_access()
