"""One server for all commands of a module; queues have names of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.shared.chance import SystemChance
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JjqServer]:
    with JjqServer(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def jjq(server: JjqServer, tmp_path: Path) -> Command:
    """The command, pointed at the server."""
    return Command(tmp_path, server.address)


@pytest.fixture
def alone(tmp_path: Path) -> Command:
    """The command, without a server."""
    return Command(tmp_path)


@pytest.fixture
def queue(jjq: Command) -> str:
    """A queue of its own, empty."""
    name = f"q-{SystemChance().token()[:8]}"
    jjq.ok("queue", "create", name)
    return name
