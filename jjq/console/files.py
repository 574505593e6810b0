"""The files of the console, as they are served: read once from the package, and known by their addresses.

    /                      index.html
    /console/<path>        everything else below static/

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

HOME: Final = "/"
PREFIX: Final = "/console/"
_INDEX: Final = "index.html"
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
    found: dict[str, ConsoleFile] = {}
    for name, body in _walk(files("jjq.console") / "static", ""):
        address = HOME if name == _INDEX else PREFIX + name
        found[address] = ConsoleFile(
            body,
            gzip.compress(body, mtime=0),
            f'"{hashlib.sha256(body).hexdigest()[:32]}"',
            _TYPES[PurePosixPath(name).suffix],
        )
    return found


def _walk(folder: Traversable, under: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _walk(each, f"{under}{each.name}/")
        elif PurePosixPath(each.name).suffix in _TYPES:
            yield f"{under}{each.name}", each.read_bytes()
