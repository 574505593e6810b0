"""The files of the console, as they are served: read once from the package, and known by their addresses.

    /                      index.html
    /console/app.js        all modules, joined (join.py)
    /console/screens/…     modules of a screen that is loaded on demand, joined
    /console/style.css     all style sheets
    /console/…             icon.svg, early.js, and vendor/ as its files are

A request names an address of this table or gets 404; nothing of a request is ever joined to a path.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from jjq.console.join import JoinedScripts, join_styles

HOME: Final = "/"
PREFIX: Final = "/console/"
_INDEX: Final = "index.html"
_PLAIN: Final = frozenset({_INDEX, "icon.svg", "early.js"})
_STYLES: Final = ("tokens", "shell", "parts", "queue", "work")  # later ones win
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file: its bytes, the same compressed, and what a browser compares to keep its copy."""

    body: bytes
    compressed: bytes
    etag: str
    media_type: str


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files by address."""
    return {
        HOME if name == _INDEX else PREFIX + name: ConsoleFile(
            body,
            gzip.compress(body, mtime=0),
            f'"{hashlib.sha256(body).hexdigest()[:32]}"',
            _TYPES[PurePosixPath(name).suffix],
        )
        for name, body in _join_scripts(dict(_walk(files("jjq.console") / "static", ""))).items()
    }


def _join_scripts(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    served = {name: body for name, body in sources.items() if name in _PLAIN or name.startswith("vendor/")}
    modules = {
        name: body.decode() for name, body in sources.items() if name.endswith(".js") and name not in served
    }
    scripts = JoinedScripts(modules, "app.js").scripts
    served |= {name: text.encode() for name, text in scripts.items()}
    served["style.css"] = join_styles([sources[f"style/{name}.css"].decode() for name in _STYLES]).encode()
    return served


def _walk(folder: Traversable, under: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _walk(each, f"{under}{each.name}/")
        elif PurePosixPath(each.name).suffix in _TYPES:
            yield f"{under}{each.name}", each.read_bytes()
