"""An address that other machines reach, without TLS: told, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coldstore.shared.errors import InvalidInput
from jjq.server.server import serve
from jjq.server.settings import ServerSettings, Tls
from tests.jjq.fakestore import FakeStore
from tests.jjq.server.test_tls import Authority


class Warnings:
    """Keeps the warnings of a log."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        self.said.append(event)

    def __getattr__(self, level: str) -> Any:
        return lambda *_, **__: None


async def warnings(settings: ServerSettings) -> list[str]:
    """What is warned of at the start."""
    log: Any = Warnings()
    server = await serve(FakeStore(), settings, log=log)
    await server.stop(0)
    return list(log.said)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_this_machine_alone_may_go_without(host: str) -> None:
    assert not ServerSettings(listen=f"{host}:1", plaintext="refuse").exposed


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.1", "192.168.1.7", "[fe80::1]", "node-1"])
def test_other_addresses_are_exposed_and_can_be_refused(host: str) -> None:
    assert ServerSettings(listen=f"{host}:1").exposed
    with pytest.raises(InvalidInput, match=r"without TLS.*tls_certificate"):
        ServerSettings(listen=f"{host}:1", plaintext="refuse")
    tls = Tls(Path("certificate"), Path("key"))
    assert not ServerSettings(listen=f"{host}:1", tls=tls, plaintext="refuse").exposed


async def test_one_line_warns_and_says_what_to_do() -> None:
    (line,) = await warnings(ServerSettings(listen="0.0.0.0:0"))
    assert "\n" not in line
    for word in ("0.0.0.0:0", "without TLS", "tls_certificate", "127.0.0.1", "plaintext"):
        assert word in line


async def test_nothing_is_said_where_it_is_allowed_or_secured(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path, "authority").issue("server")
    secured = ServerSettings(listen="0.0.0.0:0", tls=Tls(certificate, key))
    for settings in (
        ServerSettings(listen="127.0.0.1:0"),
        ServerSettings(listen="0.0.0.0:0", plaintext="allow"),
        secured,
    ):
        assert await warnings(settings) == []
