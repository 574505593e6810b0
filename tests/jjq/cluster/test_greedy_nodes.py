"""Requests that cost far more than their sender pays, sent to one of two nodes: it goes on, and is not taken over.

A refused push of 8.4 million empty elements held up a node for seven seconds, eight of them for a minute, so that
its lease ran out and the other node took its queues.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.shared.chance import SystemChance
from tests.jjq.cli.command import Command
from tests.jjq.server import greedy
from tests.servers.jjq_server import JjqServer, together
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-processes")


def owners(command: Command) -> dict[str, tuple[str, int]]:
    """The node of each queue, and in which tenure: a queue that was taken over and came back has another one."""
    listed: list[dict[str, Any]] = command.ok("shard", "list", "--json").json
    return {each["queue"]: (each["node"], each["epoch"]) for each in listed}


def test_a_node_is_not_taken_over_while_greedy_requests_come(tmp_path: Path, seaweed: S3Server) -> None:
    common = (
        "--cold", f"s3://{seaweed.bucket}/g-{SystemChance().token()}", "--s3-endpoint", seaweed.endpoint,
        "--s3-region", seaweed.region, "--journal", "s3", "--lease-seconds", "6", "--grace-seconds", "1",
        "--http-listen", "127.0.0.1:0",
    )  # fmt: skip
    keys = {"JJQ_S3_ACCESS_KEY": seaweed.access_key, "JJQ_S3_SECRET_KEY": seaweed.secret_key}
    nodes = [JjqServer(tmp_path / name, "--node", name, *common, environment=keys) for name in ("n1", "n2")]
    with together(*nodes), jjq.connect(nodes[0].address, timeout=60) as client:
        seen = [Command(tmp_path, node.address) for node in nodes]
        wait_until(lambda: all(each.ok("node", "list").text.count("serving") == 2 for each in seen), "both")
        client.create_queue("greedy")
        client.push("greedy", [b"before"])
        before = owners(seen[0])
        address = next(node.address for node in nodes if node.folder.name == before["greedy"][0])
        with greedy.attackers(address, "empty-elements", 1.0, 2) as attacking:
            output, _ = attacking.communicate()
        assert (attacking.returncode, int(output)) == (0, 2 * greedy.CONNECTIONS)
        assert owners(seen[0]) == owners(seen[1]) == before
        assert client.push("greedy", [b"after"]).first_offset == 1
