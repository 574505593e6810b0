"""The four stores that every test of the contract runs over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from tests.servers.s3 import S3Server

STORES = ("memory", "local", "moto", "seaweed")


@pytest.fixture(params=STORES)
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemoryObjects()
    elif request.param == "local":
        yield LocalObjects(tmp_path / "store")
    else:
        server: S3Server = request.getfixturevalue(request.param)
        yield server.objects()
