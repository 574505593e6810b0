"""`sqew` itself: a server that it runs, its commands and texts, docs/sqew.md, and Sqew's stress tests, scaled down."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jjq.cli.sqew.app import run_sqew
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import free_ports, wait_until

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/sqew.md"
SCRIPT = f'#!/bin/sh\nexec "{sys.executable}" -c "from jjq.cli.sqew.app import main; main()" "$@"\n'


class Sqew:
    """A server that `sqew serve` runs, and a folder with the script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        script = folder / "sqew"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        self.environment = clean_environment(
            PATH=f"{folder}:{os.environ['PATH']}", SQEW_BIND=f"127.0.0.1:{self.port}", PYTHONPATH=str(ROOT)
        )
        self.opened: list[http.client.HTTPConnection] = []
        self.log = (folder / "log").open("wb")
        flags = {"JJQ_SEGMENT_BYTES": "32MiB", "JJQ_JOURNAL_BYTES_MAX": "256MiB"}
        self.process = subprocess.Popen(
            ["sqew", "serve", "--data", str(folder / "data")],
            executable=str(script),
            env=self.environment | flags,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def await_listening(self) -> None:
        log = Path(self.log.name)
        wait_until(lambda: "HTTP on" in log.read_text() or self.process.poll() is not None, "sqew serves", 60)
        assert self.process.poll() is None, log.read_text()

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """One request on the connection of this thread."""
        connection = _OWN.__dict__.get("connection")
        if connection is None:
            connection = _OWN.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.opened.append(connection)
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
        reply = connection.getresponse()
        said = reply.read()
        assert reply.status < 300, (reply.status, said)
        return json.loads(said) if said else None


_OWN = threading.local()


@pytest.fixture(scope="module")
def sqew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sqew]:
    served = Sqew(tmp_path_factory.mktemp("sqew"))
    try:
        served.await_listening()
        yield served
    finally:
        for connection in served.opened:
            connection.close()
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(30)
        served.log.close()


@pytest.fixture
def command(sqew: Sqew, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in this process: what it prints, and its exit code."""
    monkeypatch.setenv("SQEW_SERVER", f"127.0.0.1:{sqew.port}")
    monkeypatch.delenv("JJQ_KEY", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = run_sqew(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_project_names_the_script() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["sqew"].partition(":")
    assert callable(getattr(import_module(module), function))


def test_every_example_of_the_page_does_what_it_says(sqew: Sqew) -> None:
    start, commands, curls = re.findall(r"```bash\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert start.startswith("sqew serve")  # the server of this test is the one that it runs
    told = curls.replace("localhost:8888", f"127.0.0.1:{sqew.port}").replace("curl ", "curl -sSf ")
    said = [
        subprocess.run(
            ["bash", "-ec", script], cwd=sqew.folder, env=sqew.environment, capture_output=True, text=True, check=False
        )
        for script in (commands, told.replace("\n", "; echo\n"))
    ]  # fmt: skip
    for run in said:
        assert (run.returncode, run.stderr) == (0, "")
    poll = r"\[id=(\d)\] attempts=0 available_at=\d{13} payload=\{\"id\":\d\}\n"
    assert re.fullmatch(
        r"ok\nCreated queue 'orders' with ID (\d+)\n"
        r"ID +NAME +MAX_ATTEMPTS\n\1 +orders +3 +\n"
        r"Enqueued 1 message\(s\) into 'orders'\nEnqueued 2 message\(s\) into 'orders'\n"
        r"Queue 'orders' \(ID=\1\)\n  max_attempts: 3\nStats: ready=3\n"
        + poll
        * 2
        + r"Acked 1 message\(s\)\nNacked: requeued=1 dropped=0\n"
        r"\[id=2\] attempts=1 available_at=\d+ payload=\{\"id\":2\}\n"
        r"Removed message 3\nStats: ready=1 leased=0 .*\n"
        r"Purged 1 messages from queue 'orders'\nRemoved queue 'orders'\n",
        said[0].stdout,
    ), said[0].stdout
    made, first, second, polled, acked, nacked, stats, requeued = map(
        json.loads, said[1].stdout.split("\n")[:8]
    )
    assert (made["name"], made["max_attempts"], made["dlq"]) == ("mails", 2, True)
    assert (first["id"], second["id"]) == (1, 2)
    assert [(each["id"], each["token"]) for each in polled["messages"]] == [(1, "1"), (2, "1")]
    assert (acked, nacked) == ({"acked": 1}, {"requeued": 1, "dropped": 0})
    assert (stats["delayed"], requeued) == (1, {"requeued": 0})


def test_both_spellings_and_all_texts(command: Any, tmp_path: Path) -> None:
    assert command("queue", "add", "texts")[1].startswith("Created queue 'texts' with ID ")
    assert command("queue", "add", "--name", "texts") == (1, "", "Queue 'texts' already exists\n")
    array = tmp_path / "array.json"
    array.write_text('[{"n": 1}, "two"]')
    assert (
        command("message", "enqueue", "texts", "--file", str(array))[1]
        == "Enqueued 2 message(s) into 'texts'\n"
    )
    assert command("queue", "peek", "--name", "texts", "--limit", "5")[1] == '[1] {"n":1}\n[2] "two"\n'
    assert "[id=1] attempts=0" in command("message", "get", "--queue", "texts")[1]
    assert len(command("message", "peek", "texts", "--limit", "2")[1].splitlines()) == 2
    assert command("message", "remove", "texts", "1")[1] == "Removed message 1\n"
    assert command("message", "remove", "--queue", "texts", "--id", "1") == (0, "Message 1 not found\n", "")
    assert "[id=2]" in command("message", "poll", "texts", "--visibility-ms", "60000")[1]
    assert command("message", "poll", "texts")[1] == "No messages available in 'texts'\n"
    assert command("message", "ack", "texts", "--ids", "2,9")[1] == "Acked 1 message(s)\n"
    assert command("queue", "compact", "texts")[1] == "Compacted database (VACUUM)\n"
    assert "jjq_elements" in command("metrics")[1] or "# HELP" in command("metrics")[1]
    assert command("queue", "remove", "texts")[1] == "Removed queue 'texts'\n"
    assert command("queue", "rm", "texts") == (1, "", "Queue 'texts' not found\n")


def test_what_is_wrong_is_said_in_one_line(command: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ndjson"
    bad.write_text('{"n":1}\n{n:2}\n')
    for words, text in (
        (("message", "enqueue", "q"), "Provide --payload or --file"),
        (("message", "enqueue", "q", "--payload", "{"), "Invalid JSON payload"),
        (("message", "enqueue", "q", "--file", str(bad)), "Invalid JSON at line 2"),
        (("message", "enqueue", "q", "--file", str(tmp_path / "none")), "Failed to read file"),
        (("message", "enqueue", "nothing", "--payload", "1"), "Queue 'nothing' not found"),
        (("message", "ack", "q", "--ids", "one"), "write whole numbers"),
        (("queue", "show", "nothing"), "Queue 'nothing' not found"),
        (("health", "--server", "127.0.0.1:1"), "start `sqew serve`"),
        (("health", "--server", "ftp://x"), "write HOST:PORT"),
    ):
        code, out, error = command(*words)
        assert (code, out) == (1, ""), words
        assert text in error
        assert error.count("\n") == 1
    assert command("queue", "frobnicate")[0] == 2


# Sqew's stress tests: fewer messages, the same questions --------------------------------------------------

PRODUCERS, CONSUMERS, TOTAL, BATCH = 8, 4, 400, 32


def produce(sqew: Sqew, queue: str, worker: int) -> int:
    for number in range(TOTAL // PRODUCERS):
        sqew.ask("POST", f"/queues/{queue}/messages", {"payload": {"worker": worker, "seq": number}})
    return TOTAL // PRODUCERS


def consume(sqew: Sqew, queue: str, seen: list[int]) -> int:
    """Poll and ack until all were seen; how many were acked here."""
    acked = 0
    while len(seen) < TOTAL:
        polled = sqew.ask("POST", f"/queues/{queue}/poll?batch={BATCH}&wait_ms=100")["messages"]
        seen.extend(message["id"] for message in polled)
        leases = [{"id": message["id"], "token": message["token"]} for message in polled]
        if leases:
            acked += sqew.ask("POST", f"/queues/{queue}/ack", {"messages": leases})["acked"]
    return acked


def test_many_producers_lose_nothing_and_consumers_get_each_message_once(sqew: Sqew) -> None:
    sqew.ask("POST", "/queues", {"name": "stress"})
    with ThreadPoolExecutor(PRODUCERS) as pool:
        assert sum(pool.map(lambda worker: produce(sqew, "stress", worker), range(PRODUCERS))) == TOTAL
    assert sqew.ask("GET", "/queues/stress/stats")["ready"] == TOTAL
    seen: list[int] = []
    with ThreadPoolExecutor(CONSUMERS) as pool:
        assert sum(pool.map(lambda _: consume(sqew, "stress", seen), range(CONSUMERS))) == TOTAL
    assert sorted(seen) == list(range(1, TOTAL + 1))
    assert sqew.ask("GET", "/queues/stress/messages?limit=10") == []


def test_producers_and_consumers_at_the_same_time_agree_on_the_count(sqew: Sqew) -> None:
    sqew.ask("POST", "/queues", {"name": "mixed"})
    seen: list[int] = []
    with ThreadPoolExecutor(PRODUCERS + CONSUMERS) as pool:
        consumers = [pool.submit(consume, sqew, "mixed", seen) for _ in range(CONSUMERS)]
        produced = sum(pool.map(lambda worker: produce(sqew, "mixed", worker), range(PRODUCERS)))
        consumed = sum(consumer.result() for consumer in consumers)
    assert produced == consumed == TOTAL
    assert len(set(seen)) == TOTAL
    stats = sqew.ask("GET", "/queues/mixed/stats")
    assert (stats["ready"], stats["leased"]) == (0, 0)
