"""`jjq serve` speaks HTTP beside gRPC, and `jjq key` says who may do what."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from jjq.node.settings import Settings
from tests.jjq.cli.command import Command
from tests.jjq.server.test_tls import Authority
from tests.servers.jjq_server import JjqServer, clean_environment
from tests.servers.waiting import free_ports


def http_of(server: JjqServer) -> str:
    """Where a server says that it speaks HTTP."""
    return server.log.read_text().rpartition("HTTP on ")[2].split()[0].rstrip(",")


def test_the_port_after_that_of_listen_is_the_default() -> None:
    where = {
        ("127.0.0.1:7575", None): "127.0.0.1:7576",
        ("[::1]:7575", None): "[::1]:7576",
        ("127.0.0.1:0", None): "127.0.0.1:0",
        ("127.0.0.1:7575", "0.0.0.0:80"): "0.0.0.0:80",
    }
    for (listen, http), expected in where.items():
        flags = {"listen": listen} if http is None else {"listen": listen, "http_listen": http}
        found = Settings.load(flags).http_settings()
        assert found is not None
        assert found.listen == expected
    assert Settings.load({"http_listen": "none"}).http_settings() is None


def test_a_taken_port_ends_the_start_with_one_line_that_names_the_setting(
    jjq: Command, tmp_path: Path
) -> None:
    assert jjq.server is not None
    alone = Command(tmp_path, None)
    taken = alone(
        "serve", "--listen", "127.0.0.1:0", "--http-listen", jjq.server, "--data", str(tmp_path / "data")
    )
    assert taken.code == 2
    assert len(taken.errors.splitlines()) == 1
    assert "set http_listen to another HOST:PORT, or to none" in taken.errors
    assert not (tmp_path / "data").exists()


def test_a_server_speaks_http_with_tls_and_wants_keys_from_the_first_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, secret = authority.issue("server")
    port = free_ports(1)[0]
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(secret))
    with JjqServer(tmp_path / "s", "--http-listen", f"127.0.0.1:{port}", *tls) as server:
        assert http_of(server) == f"127.0.0.1:{port}"
        context = ssl.create_default_context(cafile=authority.path)

        def ask(path: str, key: str = "") -> int:
            asked = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
            if key:
                asked.add_header("Authorization", f"Bearer {key}")
            try:
                with urllib.request.urlopen(asked, timeout=20, context=context) as reply:
                    return int(reply.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        jjq = Command(tmp_path, server.address)
        trust = ("--tls-ca", str(authority.path))
        assert ask("/v1/queues") == 200
        assert "no keys" in jjq.ok("key", "list", *trust).text
        first = jjq.ok("key", "create", "--scope", "admin", *trust).text.strip()
        refused = jjq("queue", "list", *trust)
        assert (refused.code, "wants a key" in refused.errors) == (6, True)
        made = jjq.ok(
            "key",
            "create",
            "--scope",
            "push:orders-*",
            "--scope",
            "read",
            "--name",
            "shop",
            "--json",
            "--key",
            first,
            *trust,
        ).json
        assert made["scopes"] == ["push:orders-*", "read"]
        assert (ask("/v1/queues"), ask("/v1/queues", first), ask("/healthz")) == (401, 200, 200)
        jjq.ok("queue", "create", "orders-eu", "--key", first, *trust)
        jjq.ok("push", "orders-eu", "a", "--key", "customer", "--access-key", made["text"], *trust)
        denied = jjq("queue", "create", "more", "--key", made["text"], *trust)
        assert (denied.code, "no right to admin" in denied.errors) == (6, True)
        listed = jjq.ok("key", "list", "--json", "--key", first, *trust)
        assert [key["name"] for key in listed.json] == ["", "shop"]
        jjq.ok("key", "revoke", made["id"], "--key", first, *trust)
        assert jjq("push", "orders-eu", "b", "--access-key", made["text"], *trust).code == 6
        assert ask("/v1/status", made["text"]) == 401
        said = server.log.read_text()
        assert all(text.split("_")[2] not in said for text in (first, made["text"]))
        assert server.stop() == 0


def test_http_off_loads_no_web_server(tmp_path: Path) -> None:
    script = (
        "import sys, json; import jjq.node.serving, jjq.node.settings, jjq.cli.app;"
        "print(json.dumps(sorted(m for m in sys.modules if m.split('.')[0] in {'uvicorn', 'httptools', 'msgspec'})))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env=clean_environment(), text=True
    )
    assert json.loads(found.stdout) == []
