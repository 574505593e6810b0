"""Three processes over a real S3 server, seen through the command line: tables, rebalance, drain, restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import jjq
from coldstore.shared.chance import SystemChance
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer, together
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-processes")
NAMES = ("n1", "n2", "n3")


class Processes:
    """Nodes by name; their order is that of starting."""

    def __init__(self, folder: Path, seaweed: S3Server) -> None:
        keys = {"JJQ_S3_ACCESS_KEY": seaweed.access_key, "JJQ_S3_SECRET_KEY": seaweed.secret_key}
        common = (
            "--cold", f"s3://{seaweed.bucket}/c-{SystemChance().token()}", "--s3-endpoint", seaweed.endpoint,
            "--s3-region", seaweed.region, "--journal", "s3", "--lease-seconds", "6", "--grace-seconds", "1",
            "--http-listen", "127.0.0.1:0",
        )  # fmt: skip
        self.folder = folder
        self.servers = {
            name: JjqServer(folder / name, "--node", name, *common, environment=keys) for name in NAMES
        }

    def address(self, *names: str) -> str:
        return ",".join(self.servers[name].address for name in names or NAMES)

    def command(self, *names: str) -> Command:
        return Command(self.folder, self.address(*names))

    def alive(self, at: str) -> set[str]:
        listed = self.command(at)("node", "list", "--json")
        return {each["node"] for each in listed.json if each["state"] != "silent"} if listed.output else set()

    def owners(self, at: str) -> dict[str, str]:
        listed = self.command(at)("shard", "list", "--json")
        return {each["queue"]: each["node"] for each in listed.json}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, seaweed: S3Server) -> Iterator[Processes]:
    """Two nodes that run and one that does not yet; for all tests, which come in this order."""
    made = Processes(tmp_path_factory.mktemp("cluster"), seaweed)
    with ExitStack() as stack:
        stack.enter_context(together(*(made.servers[name] for name in NAMES[:2])))
        stack.callback(made.servers["n3"].__exit__, None, None, None)
        # Each of them answers for what it sees itself.
        wait_until(lambda: made.alive("n1") == made.alive("n2") == {"n1", "n2"}, "the nodes see each other")
        yield made


class Load:
    """A producer in a thread that goes on whatever happens; what it was told is checked in the end."""

    def __init__(self, address: str, queue: str) -> None:
        self._client = jjq.connect(address, timeout=60)
        self._queue = queue
        self._stopping = threading.Event()
        self.acked = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0.005):
                n = self.acked
                receipt = self._client.push(self._queue, [b"%d" % n], producer="p", sequence=n)
                assert receipt.first_offset == n
                self.acked = n + 1
        except BaseException as error:  # noqa: BLE001 - told by `grown`
            self.error = error

    def grown(self, pushes: int = 20) -> None:
        wanted = self.acked + pushes
        wait_until(lambda: self.acked >= wanted or self.error is not None, f"{pushes} more pushes", 60)
        assert self.error is None, self.error

    def check(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self.error is None, self.error
        found = [int(e.value) for e in self._client.replay(self._queue).elements()]
        assert found == list(range(self.acked))
        self._client.close()


def test_tables_for_people(nodes: Processes) -> None:
    jjq_ = nodes.command("n1")
    jjq_.ok("queue", "create", "orders")
    owner = nodes.owners("n1")["orders"]
    other = "n2" if owner == "n1" else "n1"
    listed = jjq_.ok("node", "list").lines
    assert listed[0].split()[:6] == ["NODE", "ADDRESS", "STATE", "VERSION", "UP", "JOURNAL"]
    rows = [line.split() for line in listed[1:]]
    assert [[*row[:3], row[5]] for row in rows] == [
        [name, nodes.address(name), "serving", "s3"] for name in ("n1", "n2")
    ]
    assert jjq_.ok("shard", "list").lines[1].split()[:4] == ["orders", "tail", owner, "1"]
    assert jjq_.ok("shard", "move", "orders", "--to", other).lines[1].split()[:4] == [
        "orders",
        "tail",
        other,
        "2",
    ]
    assert jjq_.ok("shard", "split", "orders", "--dry-run").lines[1].split()[1] == "tail"  # no blocks yet
    assert "LOAD AFTER" in jjq_.ok("shard", "rebalance", "--dry-run").text
    assert jjq_("shard", "move", "orders", "--to", "n9").code == 3
    refused = jjq_("node", "take-over", other)
    assert (refused.code, "alive" in refused.errors) == (5, True)
    assert jjq_.ok("node", "drain", "n1", "--dry-run").lines[0].startswith("QUEUE")
    assert jjq_.ok("node", "drain", "n1", "--undo").lines[0].split() == ["node", "n1"]


def test_rebalance_drain_and_a_rolling_restart_under_load(nodes: Processes) -> None:
    jjq_ = nodes.command("n1")
    for n in range(9):
        jjq_.ok("queue", "create", f"q{n}")
        jjq_.ok("push", f"q{n}", "hello")
    jjq_.ok("queue", "create", "load")
    load = Load(nodes.address(), "load")
    load.grown()

    nodes.servers["n3"].start()
    wait_until(lambda: nodes.alive("n1") == nodes.alive("n2") == set(NAMES), "the third node is seen")
    plan = jjq_.ok("shard", "rebalance", "--dry-run", "--json").json
    assert "n3" in {move["to"] for move in plan["moves"]}
    assert "n3" not in nodes.owners("n2").values()  # nothing was moved yet
    moved = nodes.command("n2")("shard", "rebalance", "--json")
    assert (moved.code, moved.json["failed"]) == (0, [])
    assert "n3" in nodes.owners("n1").values()
    load.grown()

    for name in NAMES:  # a rolling restart: empty, stop, start
        others = [each for each in NAMES if each != name]
        assert nodes.command(*others)("node", "drain", name, "--json").code == 0
        assert name not in nodes.owners(others[0]).values()
        load.grown()
        assert nodes.servers[name].stop() == 0
        load.grown()
        nodes.servers[name].start()
        wait_until(lambda: all(nodes.alive(at) == set(NAMES) for at in NAMES), "it is back")
    load.check()
    for n in range(9):
        assert nodes.command("n3").ok("replay", f"q{n}").lines == ["hello"]
