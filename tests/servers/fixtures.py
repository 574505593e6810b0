"""Fixtures for real servers. One of each per test process, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.servers.faultproxy import FaultProxy, running_proxy
from tests.servers.moto import running_moto
from tests.servers.s3 import S3Server
from tests.servers.seaweed import running_seaweed


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server; give every test a prefix of its own (`seaweed.objects()`)."""
    with running_seaweed(tmp_path_factory.mktemp("seaweed")) as server, closing(server):
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """The imitation of AWS."""
    with running_moto() as server, closing(server):
        yield server


@pytest.fixture(scope="session")
def seaweed_proxy(seaweed: S3Server) -> Iterator[FaultProxy]:
    with running_proxy(seaweed.endpoint) as running:
        yield running


@pytest.fixture
def proxy(seaweed_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """A fault proxy in front of SeaweedFS, without faults so far; `seaweed.at(proxy.endpoint)` uses it."""
    seaweed_proxy.reset()
    yield seaweed_proxy
    seaweed_proxy.reset()
