"""The files of the console: what is served, how, and how much it is."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest

from jjq.console.files import HOME, PREFIX, console_files
from tests.jjq.http.asking import Web

CONSOLE = Path(__file__).parents[3] / "jjq" / "console"
COMPRESSED_BYTES_MAX = 60_000  # of all files that a screen loads in an empty browser
OURS = [address for address in console_files() if "/vendor/" not in address]


def test_vendored_files_are_those_of_the_notice() -> None:
    notice = (CONSOLE / "NOTICE").read_text("utf-8")
    told = dict(
        re.findall(
            r"^file +(\S+)\npackage .+ \d+\.\d+\.\d+ .+\nlicence .+\nsha256 +(\w{64})$", notice, re.MULTILINE
        )
    )
    found = {
        path.relative_to(CONSOLE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (CONSOLE / "static" / "vendor").iterdir()
    }
    assert told == found
    assert len(found) == 3
    assert "Permission is hereby granted" in notice
    assert "Apache License" in (CONSOLE / "LICENSE-htm").read_text("utf-8")


def imports_of(address: str) -> set[str]:
    """A module and all that it imports; not what it loads on demand."""
    found, waiting = set(), [address]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            text = console_files()[here].body.decode()
            waiting += [_resolve(here, target) for target in re.findall(r'from "(\.[^"]+)"', text)]
    return found


def _resolve(base: str, target: str) -> str:
    return (Path(base).parent / target).resolve().as_posix()


def screens() -> dict[str, str]:
    """Path of each screen, and its module."""
    table = console_files()["/console/screens.js"].body.decode()
    return {
        path: _resolve("/console/screens.js", file)
        for path, file in re.findall(r'path: "([^"]+)".*import\("([^"]+)"\)', table)
    }


@pytest.mark.parametrize("path", screens())
def test_what_a_screen_loads_is_small(path: str) -> None:
    known = console_files()
    linked = re.findall(r'(?:src|href)="(console/[^"]+)"', known[HOME].body.decode())
    loaded = (
        {HOME, *(f"/{link}" for link in linked)} | imports_of("/console/app.js") | imports_of(screens()[path])
    )
    if "/console/parts/plot.js" in loaded:
        loaded.add("/console/vendor/uplot.js")
    assert sum(len(known[address].compressed) for address in loaded) < COMPRESSED_BYTES_MAX


def test_every_file_is_served_and_only_those() -> None:
    on_disk = {path.relative_to(CONSOLE / "static").as_posix() for path in CONSOLE.rglob("static/**/*.*")}
    assert {address.removeprefix(PREFIX) for address in console_files()} - {HOME} | {"index.html"} == on_disk


@pytest.mark.parametrize("address", OURS)
def test_no_markup_is_made_of_text_and_nothing_comes_from_elsewhere(address: str) -> None:
    text = console_files()[address].body.decode()
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "cookie",
    ):
        assert forbidden not in text
    assert "https://" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    if address == HOME:
        assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", text) == []
        assert " style=" not in text
        assert "<style" not in text
        assert re.search(r"\son\w+=", text) is None


def test_imports_and_links_lead_to_files_that_are_there() -> None:
    known = console_files()
    for address in OURS:
        text = known[address].body.decode()
        found = re.findall(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""", text)
        base = Path(address).parent
        for target in found:
            assert (base / target).resolve().as_posix() in known, f"{address} imports {target}"
        if address == HOME:
            for link in re.findall(r'(?:src|href)="(console/[^"]+)"', text):
                assert f"/{link}" in known


async def test_a_browser_keeps_its_copy_and_gets_it_compressed(web: Web) -> None:
    plain = await web.ask("GET", "/console/app.js")
    assert (plain.status, plain.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert plain.headers["cache-control"] == "no-cache"
    packed = await web.ask("GET", "/console/app.js", Accept_Encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["etag"] != plain.headers["etag"]
    for reply, more in ((plain, {}), (packed, {"Accept_Encoding": "gzip"})):
        again = await web.ask("GET", "/console/app.js", If_None_Match=reply.headers["etag"], **more)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == reply.headers["etag"]


async def test_the_page_runs_nobody_elses_code_and_sets_no_cookie(web: Web) -> None:
    page = await web.ask("GET", "/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in page.headers
    assert "access-control-allow-origin" not in page.headers
    assert "/console" not in "".join((await web.ask("GET", "/openapi.json")).json["paths"])


async def test_other_paths_lead_nowhere(web: Web) -> None:
    for path in (
        "/console/", "/console", "/console/../files.py", "/console/..%2ffiles.py", "/console/%2e%2e/NOTICE",
        "/console/core%2fapi.js", "/console//app.js", "/console/app.js/", "/index.html", "/console/index.html",
    ):  # fmt: skip
        assert (await web.ask("GET", path)).status == 404, path
