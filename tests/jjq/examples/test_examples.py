"""Every example runs as it stands and does what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.servers.jjq_server import JjqServer, clean_environment
from tests.servers.waiting import free_ports

EXAMPLES = ROOT / "examples"
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JjqServer]:
    with JjqServer(tmp_path_factory.mktemp("server")) as made:
        yield made


def run(name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env=clean_environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def test_producer_subscriber_and_replay_work_on_one_queue(server: JjqServer) -> None:
    assert run("producer", server.address) == ["pushed 100,000 events; the last one is at offset 99999"]
    *pages, waiting = run("subscriber", server.address)
    assert pages[0] == "/page/0: 14286 clicks"
    assert waiting == "0 events are waiting"
    hour, users = run("replay", server.address)
    assert hour.startswith("100000 events of ")
    assert users == "the last 1,000 are from 100 users"
    run("producer", server.address)
    assert run("subscriber", server.address, "7")[-1] == "99993 events are waiting"


def test_asyncio_tour(server: JjqServer) -> None:
    lines = run("asyncio_tour", server.address)
    assert sorted(line.split(":")[0] for line in lines) == ["ann", "bob", "heard 2000 messages"]


def test_worker(server: JjqServer) -> None:
    assert run("worker", server.address) == [
        "100 mails were sent, to bob as well: True",
        "task 100 is buried after 3 attempts: ValueError: no such address",
        "attempts in the ledger: 104",
    ]


def test_embedded(tmp_path: Path) -> None:
    alarms, answer = run("embedded", str(tmp_path))
    assert alarms == "49 alarms, the first at offset 100"
    assert answer.startswith("[('0', 1000, 100), ('1', 1000, 100)")


def test_web_app(tmp_path: Path) -> None:
    first, second, *elements = run("web_app", str(tmp_path))
    assert (first, second) == ("you are visitor 1", "you are visitor 2")
    assert [json.loads(line)["value"] for line in elements] == [{"page": "/"}, {"page": "/"}]


@pytest.mark.skipif(
    NODE is None, reason="node is not on the PATH: install Node 18 or newer to run its example"
)
def test_websocket(tmp_path: Path) -> None:
    http = f"127.0.0.1:{free_ports(1)[0]}"
    with JjqServer(tmp_path, environment={"JJQ_HTTP_LISTEN": http}):
        done = subprocess.run(
            [str(NODE), str(EXAMPLES / "websocket.mjs"), http],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.splitlines() == [
        "pushed 3 elements, the first at offset 0",
        "popped one, two",
        "refused: queue from-node has no subscriber nobody: create it, or correct the name (code 5)",
        "heard three at offset 2",
        "heard four at offset 3",
    ]


def test_every_example_is_tried_here_or_where_there_is_a_spark() -> None:
    tried = Path(__file__).read_text()
    with_spark = "".join(path.read_text() for path in (ROOT / "tests/jjq/spark").rglob("test_example.py"))
    for path in EXAMPLES.glob("*.py"):
        assert f'run("{path.stem}"' in tried or f'"{path.name}"' in with_spark, path.name
