"""Open a store by its URL. Only this module knows which forms of URL there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

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
    if not _SCHEME.match(url):
        return LocalObjects(_folder(url, url), clock=clock, chance=chance)
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InvalidInput("a store's URL must not hold credentials: use the environment or the settings")
    if parts.query or parts.fragment:
        raise _unknown(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return LocalObjects(_folder(unquote(parts.path), url), clock=clock, chance=chance)
    if parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc):
        from coldstore.objects.s3 import S3Objects  # boto3 is slow to import and needed only here

        return S3Objects(parts.netloc, unquote(parts.path).strip("/"), s3, clock=clock, chance=chance)
    raise _unknown(url)


def _folder(path: str, url: str) -> Path:
    if not path.strip() or "\0" in path:
        raise _unknown(url)
    return Path(path).expanduser()


def _unknown(url: str) -> InvalidInput:
    return InvalidInput(f"{url[:80]!r} names no store: use {FORMS}")
