"""A server that lost its journal, or its data directory while it ran: what the process says, and the way on."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import jjq as client_of
from hotstore.limits import WITNESS_SECONDS
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until


def test_a_lost_journal_is_told_and_the_loss_accepted_by_the_command(tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    with JjqServer(tmp_path, "--cold", str(cold), "--log", "json") as server:
        jjq = Command(tmp_path, server.address)
        jjq.ok("queue", "create", "orders")
        jjq.ok("push", "orders", "a", "b", "c")
        said = cold / "journal.json"
        wait_until(
            lambda: said.exists() and b'"orders"' in said.read_bytes(),
            "the cold store knows it",
            2 * WITNESS_SECONDS,
        )
        assert server.stop(signal.SIGKILL) != 0
        shutil.rmtree(server.data / "journal")
        # When it starts again
        server.start()
        jjq = Command(tmp_path, server.address)
        refused = jjq("push", "orders", "d")
        assert refused.code == 4
        assert "accept-loss orders" in refused.errors
        # Then the command tells what is lost, changes nothing, and does what it says with --yes
        told = jjq.ok("queue", "accept-loss", "orders").text
        assert "0..2" in told
        assert "no; add --yes" in told
        assert jjq("push", "orders", "d").code == 4
        assert (
            jjq.ok("queue", "accept-loss", "orders", "--yes", "--dry-run", "--json").json["accepted"] is False
        )
        wrong = jjq("queue", "accept-loss", "orders", "--next-offset", "1", "--yes")
        assert wrong.code == 2
        done = jjq.ok("queue", "accept-loss", "orders", "--next-offset", "5", "--yes", "--json").json
        assert (done["count"], done["next_offset"], done["accepted"]) == (5, 5, True)
        assert jjq.ok("push", "orders", "d", "--json").json["last_offset"] == 5
        found = [json.loads(line) for line in jjq.ok("replay", "orders", "--json").lines]
        assert [each["offset"] for each in found] == list(range(6))
        assert ["jjq-lost" in (each.get("headers") or {}) for each in found] == [True] * 5 + [False]
        assert "nothing to accept" in jjq.ok("queue", "accept-loss", "orders").text
        audit = [json.loads(line) for line in server.log.read_text().splitlines() if "loss accepted" in line]
        assert [(each["queue"], each["elements"], each["count"]) for each in audit] == [
            ("orders", "0..2,3..4", 5)
        ]


def test_a_data_directory_deleted_under_a_running_server_ends_it_with_1(tmp_path: Path) -> None:
    with JjqServer(tmp_path, "--cold", str(tmp_path / "cold")) as server:
        with client_of.connect(server.address) as client:
            client.create_queue("orders")
            client.push("orders", [b"a"])
        shutil.rmtree(server.data)
        assert server.process.wait(30) == 1
        assert "was the data directory deleted or replaced?" in server.log.read_text()
