"""Open a store by its URL. Only this module knows which forms of URL there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from coldstore.objects import local_files
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput

FORMS: Final = "s3://BUCKET/PREFIX, file:///FOLDER, a folder's path, or memory: (lost when the process ends)"

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def open_objects(url: str, *, s3: S3Settings | None = None, clock: Clock, chance: Chance) -> ObjectStore:
    """The store that `url` names; nothing is created, and no request is sent, before it is used."""
    if url == "memory:":
        return MemoryObjects(clock)
    folder = _local(url)
    if folder is not None:
        return LocalObjects(folder, clock=clock, chance=chance)
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InvalidInput("a store's URL must not hold credentials: use the environment or the settings")
    if parts.query or parts.fragment:
        raise _unknown(url)
    if parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc):
        from coldstore.objects.s3 import S3Objects  # boto3 is slow to import and needed only here

        return S3Objects(parts.netloc, unquote(parts.path).strip("/"), s3, clock=clock, chance=chance)
    raise _unknown(url)


def place_of(url: str) -> str:
    """Names the place of the store at `url`: another one for a copy of it. Makes a folder that is not there yet."""
    folder = _local(url)
    if folder is None:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}/{unquote(parts.path).strip('/')}"
    try:
        local_files.make_root(folder)
        return f"folder {folder.stat().st_ino}"
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} as a store: {error.strerror}; choose another") from None


def _local(url: str) -> Path | None:
    """The folder that `url` names, if it names one."""
    if not _SCHEME.match(url):
        return _folder(url, url)
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        return None
    return None if parts.query or parts.fragment else _folder(unquote(parts.path), url)


def _folder(path: str, url: str) -> Path:
    if not path.strip() or "\0" in path:
        raise _unknown(url)
    return Path(path).expanduser()


def _unknown(url: str) -> InvalidInput:
    return InvalidInput(f"{url[:80]!r} names no store: use {FORMS}")
