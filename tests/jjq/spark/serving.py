"""A real server for Spark's tests, one per test process, with a client to fill and to check its queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

import jjq
from tests.servers.jjq_server import JjqServer

_NUMBERS = count()


@dataclass
class Serving:
    """The server, and who talks to it."""

    process: JjqServer
    client: jjq.Client

    @property
    def address(self) -> str:
        return self.process.address

    @property
    def root(self) -> str:
        """The server's cold store, which Spark reads beside it."""
        return str(self.process.data / "cold")

    def new_queue(self, **settings: Any) -> str:
        """A queue that no other test has."""
        return self.client.create_queue(f"queue-{next(_NUMBERS)}", **settings).name

    def options(self, queue: str, **more: Any) -> dict[str, str]:
        """What to tell `format("jjq")`, for reading through the server alone and for writing."""
        return {"server": self.address, "queue": queue} | {key: str(value) for key, value in more.items()}

    def values(self, queue: str) -> list[Any]:
        """All values, in their order."""
        return self.client.replay(queue).to_table().column("value").to_pylist()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server process."""
    with JjqServer(tmp_path_factory.mktemp("server")) as process, jjq.connect(process.address) as client:
        yield Serving(process, client)
