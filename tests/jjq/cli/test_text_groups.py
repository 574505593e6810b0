"""`jjq text import --group` and `export --group`: marks of a file are states of tasks, and back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from coldstore.shared.chance import SystemChance
from jjq.blocking import Client, connect
from jjq.textqueue import TextQueue
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until

FILE = b"# head\n-one\n=two\n\\v  \n!three\n\n-four\n# tail\n"


@pytest.fixture
def name() -> str:
    return f"text-{SystemChance().token()[:8]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.tq"
    path.write_bytes(FILE)
    return path


@pytest.fixture
def client(server: JjqServer) -> Client:
    return connect(server.address)


def states(client: Client, group: str) -> list[str]:
    """Of all tasks, in order."""
    return [task.state for task in client.tasks(group, limit=1000)]


def test_marks_become_states_and_states_become_marks(
    jjq: Command, client: Client, file: Path, name: str
) -> None:
    group = f"{name}/mail"
    done = jjq.ok("text", "import", "jobs.tq", name, "--group", "mail").text
    assert done == "pushed 4 messages; 2 tasks are done or buried now\n"
    found = client.get_group(group)
    assert (found.tasks["ready"], found.tasks["buried"], found.tasks["done"], found.paused) == (
        2,
        1,
        1,
        False,
    )
    jjq.ok("text", "export", name, "copy.tq", "--group", "mail")
    copy = file.with_name("copy.tq")
    assert copy.read_bytes() == FILE

    # A worker of the group handles one, and the file learns of it.
    tasks = client.take(group, 1)
    assert [task.value for task in tasks] in (["one"], [b"one"])
    client.ack(group, tasks)
    assert (
        jjq.ok("text", "export", name, "copy.tq", "--group", group).text
        == "wrote 0 bytes, marked 1 messages\n"
    )
    assert copy.read_bytes() == FILE.replace(b"-one", b"=one")
    jjq.ok("text", "export", name, "new.tq", "--group", "mail")
    assert file.with_name("new.tq").read_bytes() == FILE.replace(b"-one", b"=one")
    jjq.ok("text", "export", name, "plain.tq")
    assert file.with_name("plain.tq").read_bytes() == FILE

    # A person marks one in the file, and the group learns of it; again: nothing happens.
    with TextQueue(file) as queue:
        list(queue)[-1].mark_error()
        queue.append("five")
    assert jjq.ok("text", "import", "jobs.tq", name, "--group", "mail", "--json").json["states"] == 1
    assert jjq.ok("text", "import", "jobs.tq", name, "--group", "mail", "--json").json["states"] == 0
    found = client.get_group(group)
    assert (found.tasks["ready"], found.tasks["buried"], found.tasks["done"]) == (1, 2, 2)
    jjq.ok("text", "export", name, "copy.tq", "--group", "mail")
    assert copy.read_bytes() == FILE.replace(b"-one", b"=one").replace(b"-four", b"!four") + b"-five\n"


def test_no_worker_gets_a_message_that_is_done(
    jjq: Command, client: Client, tmp_path: Path, name: str
) -> None:
    """A worker waits while the file is imported: it gets what is queued, and nothing else."""
    data = b"".join(b"-%d\n" % n if n % 10 == 0 else b"=%d\n" % n for n in range(3_000))
    (tmp_path / "many.tq").write_bytes(data + b"# a comment\n")
    client.create_queue(name, content="text")
    client.create_group(name, "mail")
    running = jjq.start("text", "import", "many.tq", name, "--group", "mail")
    found: list[str] = []
    while len(found) < 300:
        tasks = client.take(f"{name}/mail", 50, wait=30.0)
        assert len(tasks), "the worker waited in vain"
        found += [str(task.value, "utf-8") if isinstance(task.value, bytes) else task.value for task in tasks]
        client.ack(f"{name}/mail", tasks)
    assert running.wait(60) == 0
    running.communicate()
    assert found == [str(n) for n in range(0, 3_000, 10)]
    assert client.get_group(f"{name}/mail").tasks["done"] == 3_000
    jjq.ok("text", "export", name, "out.tq", "--group", "mail")
    assert (tmp_path / "out.tq").read_bytes() == data.replace(b"-", b"=") + b"# a comment\n"


def test_a_group_that_somebody_has_paused_stays_so(
    jjq: Command, client: Client, file: Path, name: str
) -> None:
    client.create_queue(name, content="text")
    client.create_group(name, "mail")
    client.pause(f"{name}/mail")
    jjq.ok("text", "import", "jobs.tq", name, "--group", "mail")
    assert client.get_group(f"{name}/mail").paused


def test_an_export_follows_the_states_of_a_group(
    jjq: Command, client: Client, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "live.tq"
    client.create_queue(name, content="text")
    client.create_group(name, "mail")
    client.push(name, ["a", "b\nlines"], headers=[None, {"tq.0": "v "}])
    running = jjq.start("text", "export", name, "live.tq", "--group", "mail", "--follow")
    try:
        wait_until(
            lambda: out.exists() and out.read_bytes() == b"-a\n-b\n lines\n\\v \n", "it is written", 60
        )
        client.ack(f"{name}/mail", client.take(f"{name}/mail", 1))
        wait_until(lambda: out.read_bytes().startswith(b"=a\n-b"), "the mark is there", 60)
        client.bury(f"{name}/mail", client.take(f"{name}/mail", 1))
        client.push(name, ["c"])
        wait_until(lambda: out.read_bytes() == b"=a\n!b\n lines\n\\v \n-c\n", "all is there", 60)
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        running.communicate()


def test_a_group_that_does_not_exist_is_told(jjq: Command, file: Path, name: str) -> None:
    jjq.ok("text", "import", "jobs.tq", name)
    assert jjq("text", "export", name, "out.tq", "--group", "none").code == 3
    assert not file.with_name("out.tq").exists()
