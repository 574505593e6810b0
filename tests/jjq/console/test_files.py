"""The files of the console: what is served, how, and how much it is."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest

from jjq.console.files import HOME, PREFIX, console_files
from jjq.console.join import JoinedScripts, ModuleError, join_styles
from tests.jjq.http.asking import Web

CONSOLE = Path(__file__).parents[3] / "jjq" / "console"
COMPRESSED_BYTES_MAX = 60_000  # of all files that are served, but the SQL screen
ON_DEMAND = "/console/screens/sql.js"
OURS = [address for address in console_files() if "/vendor/" not in address]
SOURCES = {
    path.relative_to(CONSOLE / "static").as_posix(): path.read_text("utf-8")
    for path in CONSOLE.rglob("static/**/*.*")
}
MODULES = {
    name: text
    for name, text in SOURCES.items()
    if name.endswith(".js") and not name.startswith("vendor/") and name != "early.js"
}


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
    assert len(found) == 1
    assert "Permission is hereby granted" in notice
    assert "Apache License" in (CONSOLE / "LICENSE-htm").read_text("utf-8")


def test_the_whole_console_is_small() -> None:
    known = console_files()
    sizes = {address: len(file.compressed) for address, file in known.items()}
    assert sum(sizes.values()) - sizes[ON_DEMAND] < COMPRESSED_BYTES_MAX, sizes
    assert sizes[ON_DEMAND] < COMPRESSED_BYTES_MAX / 10, sizes


def test_every_source_is_served_once_and_nothing_else() -> None:
    known = {address.removeprefix(PREFIX): file.body.decode() for address, file in console_files().items()}
    assert set(known) == {
        HOME, "app.js", "early.js", "icon.svg", "screens/sql.js", "style.css", "vendor/preact.js",
    }  # fmt: skip
    offered = re.findall(r"Object\.assign\(M,\{(.+)\}\);", known["app.js"] + known["screens/sql.js"])
    names = [name for line in offered for name in line.split(",")]
    exported = [
        name
        for text in MODULES.values()
        for name in re.findall(r"^export (?:async )?(?:function\*?|const|class) (\w+)", text, re.MULTILINE)
    ]
    assert sorted(names) == sorted(exported)
    for name, text in SOURCES.items():
        if name.endswith(".css"):
            assert join_styles([text]).strip() in known["style.css"], name


# Joining -------------------------------------------------------------------------------------------------


def test_modules_are_joined_in_the_order_in_which_they_need_each_other() -> None:
    joined = JoinedScripts(
        {
            "app.js": """// starts
import { html } from "./vendor/preact.js";
import { twice as double } from "./core/sums.js";
  const page = () => import("./screens/later.js"); // on demand
  render(html`${double(2)}`);
""",
            "core/sums.js": """import { useState } from "../vendor/preact.js";
const two = 2;
export const twice = (n) => two * n;
""",
            "screens/later.js": """import { html } from "../vendor/preact.js";
import { twice } from "../core/sums.js";
export function Later() {
  return html`${twice(4)}`;
}
""",
        },
        "app.js",
    )
    assert joined.scripts == {
        "app.js": """import {html,useState} from "./vendor/preact.js";
const M={};
{const two = 2;
const twice = (n) => two * n;
Object.assign(M,{twice});}
{const {twice:double}=M;
const page = () => import("./screens/later.js");
render(html`${double(2)}`);}
export {M};
""",
        "screens/later.js": """import {html} from "../vendor/preact.js";
import {M} from "../app.js";
{const {twice}=M;
function Later() {
return html`${twice(4)}`;
}
Object.assign(M,{Later});}
export const {Later}=M;
""",
    }


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            {"app.js": 'import { a } from "./a.js";', "a.js": 'import { b } from "./app.js";'},
            "import each other",
        ),
        (
            {
                "app.js": 'import { a } from "./a.js";\nimport { a as b } from "./b.js";',
                "a.js": "export const a = 1;",
                "b.js": "export const a = 2;",
            },
            "a.js and b.js both export a",
        ),
        ({"app.js": 'import * as a from "./a.js";'}, "cannot join"),
        ({"app.js": "export default 1;"}, "cannot join"),
    ],
)
def test_a_module_that_cannot_be_joined_is_named(modules: dict[str, str], said: str) -> None:
    with pytest.raises(ModuleError, match=said):
        JoinedScripts(modules, "app.js")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_others_export_and_uses_it(name: str) -> None:
    """A name that is not exported would be undefined in the joined script, without an error at its import."""
    text = MODULES[name]
    for names, target in re.findall(r'^import \{ (.+) \} from "(.+)";$', text, re.MULTILINE):
        source = (Path("/") / Path(name).parent / target).resolve().relative_to("/").as_posix()
        for each in names.split(", "):
            exported, _, local = each.partition(" as ")
            if not source.startswith("vendor/"):
                assert re.search(rf"^export .*\b{exported}\b", MODULES[source], re.MULTILINE), (
                    f"{name}: {each}"
                )
            assert len(re.findall(rf"\b{local or exported}\b", text)) > 1, f"{name} does not use {each}"


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
        assert " // " not in text or address == "/console/early.js", f"a comment is served in {address}"
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
