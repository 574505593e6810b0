"""`jjq serve` as a process: it says where it listens, ends in order, and fails with advice."""

from __future__ import annotations

import json
import signal
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

import jjq as client_of
from tests.jjq.cli.command import Command
from tests.jjq.server.test_tls import Authority
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import free_ports


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_stops_with_0_when_asked_and_all_is_there_afterwards(tmp_path: Path, number: int) -> None:
    with JjqServer(tmp_path) as server:
        with client_of.connect(server.address) as client:
            client.create_queue("orders")
            client.push("orders", [b"a"])
        assert server.stop(number) == 0
        server.start()
        with client_of.connect(server.address) as client:
            assert client.get_queue("orders").next_offset == 1


def test_a_waiting_pop_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server:
        jjq = Command(tmp_path, server.address)
        jjq.ok("queue", "create", "orders")
        jjq.ok("subscriber", "create", "orders", "s")
        with jjq.start("pop", "orders/s", "--wait", "300", "--timeout", "1") as process:
            assert server.stop() == 0
            process.kill()


def test_it_says_where_it_listens_and_keeps_things(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with JjqServer(tmp_path, "--metrics-listen", f"127.0.0.1:{port}", "--log", "json") as server:
        greeting, *logs = server.log.read_text().splitlines()[::-1]
        assert greeting.startswith(f"jjq listens on {server.address}, data in {server.data}, history in ")
        assert greeting.endswith(f"metrics on port {port}")
        assert all("event" in json.loads(line) for line in logs)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            assert b"jjq_calls_total" in page.read()


def test_a_failing_journal_ends_the_process_with_1_and_nothing_unsynced_is_acknowledged(
    tmp_path: Path,
) -> None:
    broken = {"JJQ_FAILPOINTS": "journal.written:3:raise"}
    with JjqServer(tmp_path, environment=broken) as server:
        acknowledged = 0
        with client_of.connect(server.address, timeout=5.0) as client:
            client.create_queue("orders")
            with suppress(client_of.Unavailable):
                for acknowledged in range(10):
                    client.push("orders", [b"%d" % acknowledged])
        assert server.process.wait(30) == 1
        assert "the journal failed" in server.log.read_text()
    with JjqServer(tmp_path) as server, client_of.connect(server.address) as client:
        values = client.replay("orders").to_table().column("value").to_pylist()
        assert values[:acknowledged] == [b"%d" % n for n in range(acknowledged)]


def test_a_directory_has_one_server(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server:
        ran = Command(tmp_path).shell(f"jjq serve --data {server.data} --listen 127.0.0.1:0")
        assert (ran.code, ran.output) == (5, b"")
        assert ran.errors.count("\n") == 1
        assert "lock" in ran.errors or "process" in ran.errors


def test_a_port_has_one_server(tmp_path: Path) -> None:
    with JjqServer(tmp_path / "one") as server:
        ran = Command(tmp_path).shell(f"jjq serve --data other --listen {server.address} --log-level error")
        assert (ran.code, ran.output) == (2, b"")
        assert ran.errors.count("\n") == 1, "gRPC has nothing to add"
        assert "in use" in ran.errors


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--journal tape", "use disk or s3"),
        ("--listen nowhere", "HOST:PORT"),
        ("--data /proc/nope", "data directory"),
        ("--config missing.toml", "missing.toml"),
        ("--cold ftp://x", "s3://BUCKET/PREFIX"),
        ("--tls-key a --tls-certificate b", "TLS"),
        ("--listen 0.0.0.0:0 --plaintext refuse", "without TLS"),
    ],
)
def test_wrong_settings_end_it_with_2_and_one_line(alone: Command, flags: str, why: str) -> None:
    ran = alone("serve", *flags.split())
    assert (ran.code, ran.output) == (2, b""), ran
    line = ran.errors.splitlines()[-1]
    assert line.startswith("jjq: ")
    assert why in line


def test_with_tls_only_clients_with_a_certificate_are_served(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    (certificate, key), (mine, secret) = authority.issue("server"), authority.issue("client")
    flags = [
        "--tls-certificate",
        str(certificate),
        "--tls-key",
        str(key),
        "--tls-client-ca",
        str(authority.path),
    ]
    with JjqServer(tmp_path / "server", *flags) as server:
        jjq = Command(tmp_path, server.address)
        known = ["--tls-ca", str(authority.path), "--tls-certificate", str(mine), "--tls-key", str(secret)]
        assert jjq.ok("queue", "list", "--json", *known).json == []
        assert jjq("queue", "list", "--timeout", "1").code == 7
        assert jjq("queue", "list", "--timeout", "1", *known[:2]).code == 7
        assert jjq("queue", "list", *known[:4]).code == 2
        for names in ("JJQ_TLS_CERTIFICATE={} JJQ_TLS_KEY={}", "JJQ_CLIENT_CERTIFICATE={} JJQ_CLIENT_KEY={}"):
            ours = f"JJQ_TLS_CA={authority.path} {names.format(mine, secret)}"
            assert jjq.shell(f"{ours} jjq ping").code == 0, names
            assert jjq.shell(f"{ours} jjq queue list --json").json == [], names
