"""`jjq text …`: text queues on the command line, and between a file and a server."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from coldstore.shared.chance import SystemChance
from jjq.textqueue import TextQueue
from tests.jjq.cli.command import Command
from tests.servers.waiting import wait_until

FILE = (
    b"# Jobs of today\n  and of tomorrow\n\n-one\n=two\n more\n\\retries=0  \n!three\n\nTunknown\n"
    b"-four\r\n\\v \r\n# end\n\\c\n"
)


@pytest.fixture
def name() -> str:
    return f"text-{SystemChance().token()[:8]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.tq"
    path.write_bytes(FILE)
    return path


def test_list_shows_what_was_asked_for(alone: Command, file: Path) -> None:
    ran = alone("text", "list", "jobs.tq")
    assert (ran.code, "'T'" in ran.errors) == (0, True)
    assert [line.split()[:3] for line in ran.lines] == [
        ["OFFSET", "STATUS", "VALUE"], ["35", "queued", "one"], [str(FILE.index(b"-four")), "queued", "four"],
    ]  # fmt: skip
    lines = alone("text", "list", "--all", "--json", "jobs.tq").lines
    assert [json.loads(line)["status"] for line in lines] == [
        "comment", "queued", "done", "critical", "queued", "comment",
    ]  # fmt: skip
    assert json.loads(lines[2])["variables"] == ["retries=0  "]
    assert alone("text", "list", "--values", "--done", "jobs.tq").text == "one\ntwo\nmore\nfour\n"
    assert alone("text", "list", "--strict", "jobs.tq").code == 2
    assert alone("text", "list").code == 2
    assert file.read_bytes() == FILE


def test_append_done_error_and_set(alone: Command, tmp_path: Path) -> None:
    assert alone.ok("text", "append", "new.tq", "-a", "b\nc", "-v", "n=0 ").text == "appended 2 messages\n"
    assert alone.ok("text", "append", "new.tq", input=b"d\ne\n").text == "appended 2 messages\n"
    appended = alone.ok("text", "append", "new.tq", "f", "--mutex", "--sync", "--json").json
    assert (appended["offset"], appended["value"]) == (28, "f")
    alone.ok("text", "done", "new.tq", "0", "22")
    alone.ok("text", "error", "new.tq", "10")
    alone.ok("text", "set", "new.tq", "0", "0", "n=1")
    found = (tmp_path / "new.tq").read_bytes()
    assert found == b"=-a\n\\n=1 \n!b\n c\n\\n=0 \n=d\n-e\n-f\n\\mutex=                \n"
    for wrong in (
        ("done", "new.tq"),
        ("done", "new.tq", "1"),
        ("set", "new.tq", "0", "7", "x"),
        ("error", "new.tq", "0"),
    ):
        ran = alone("text", *wrong)
        assert ran.code in (2, 5), (wrong, ran)
        assert ran.errors.startswith("jjq: ")
    assert alone("text", "set", "new.tq", "0", "0", "too long for it").code == 2
    assert alone("text", "list", "none.tq").code == 3
    assert (tmp_path / "new.tq").read_bytes() == found


def test_work_runs_a_command_for_each_message(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "w.tq"
    path.write_bytes(b"-good\n lines\n-bad\n-later\n-last\n\\v=1  \n")
    script = 'text=$(cat); echo "$text $JJQ_TEXT_0" >> log; case $text in bad) exit 3;; later) exit 75;; esac'
    ran = alone("text", "work", "w.tq", "--", "sh", "-c", script)
    assert (ran.code, "4 handled, 1 of them with an error" in ran.errors) == (0, True)
    assert (tmp_path / "log").read_text() == "good\nlines \nbad \nlater \nlast v=1\n"
    assert path.read_bytes() == b"=good\n lines\n!bad\n-later\n=last\n\\v=1  \n"
    path.write_bytes(b"-goes\n-stays\n")
    ran = alone("text", "work", "w.tq", "--", "sh", "-c", "printf '%s\\n' -stays > new && mv new w.tq")
    assert (ran.code, "no longer in w.tq" in ran.errors, "2 handled, 0 of" in ran.errors) == (0, True, True)
    path.write_bytes(b"=good\n lines\n!bad\n-later\n=last\n\\v=1  \n")
    assert alone("text", "work", "w.tq", "--", "no-such-command").code == 2
    assert alone("text", "work", "w.tq").code == 2
    assert alone("text", "work", "w.tq", "--max", "0", "--", "cat").code == 2
    assert path.read_bytes() == b"=good\n lines\n!bad\n-later\n=last\n\\v=1  \n"


def test_work_follows_a_file_and_a_second_worker_needs_mutexes(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "w.tq"
    path.write_bytes(b"-first\n")
    worker = alone.start("text", "work", "w.tq", "--follow", "--", "sh", "-c", "cat >> log")
    try:
        wait_until(lambda: path.read_bytes().startswith(b"="), "the first message is done", 30)
        with TextQueue(path) as queue:
            queue.append("plain")
            wait_until(lambda: b"=plain" in path.read_bytes(), "the second message is done", 30)
            os.kill(worker.pid, signal.SIGSTOP)
            queue.append("unhandled")
            assert alone("text", "work", "w.tq", "--", "cat").code == 5
            queue.append("shared", ["mutex=          "])
        os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: b"=shared" in path.read_bytes(), "all are done", 30)
    finally:
        worker.send_signal(signal.SIGINT)
        assert worker.wait(30) == 130
        worker.communicate()
    assert (tmp_path / "log").read_text() == "firstplainunhandledshared"


def test_a_file_is_imported_and_exported_byte_for_byte(jjq: Command, file: Path, name: str) -> None:
    assert jjq.ok("text", "import", "jobs.tq", name).text == "pushed 4 messages\n"
    assert jjq.ok("text", "export", name, "copy.tq").text == f"wrote {len(FILE)} bytes\n"
    assert file.with_name("copy.tq").read_bytes() == FILE
    elements = [json.loads(line) for line in jjq.ok("replay", name, "--json").lines]
    assert [element["value"] for element in elements] == ["one", "two\nmore", "three", "four"]
    assert elements[1]["headers"]["tq.0"] == "retries=0  "
    assert [element["headers"].get("tq.status") for element in elements] == [None, "done", "critical", None]

    # Again: nothing happens. Then the file grows, also by a comment alone, and marks change.
    assert jjq.ok("text", "import", "jobs.tq", name, "--json").json["pushed"] == 0
    assert jjq.ok("text", "export", name, "copy.tq").text == "wrote 0 bytes\n"
    with TextQueue(file, report=lambda text: None) as queue:
        next(iter(queue)).mark_done()
        with file.open("ab") as tail:
            tail.write(b"# a comment alone")
        jjq.ok("text", "import", "jobs.tq", name)
        queue.append("five")
    assert jjq.ok("text", "import", "jobs.tq", name, "--json").json["pushed"] == 1
    jjq.ok("text", "export", name, "copy.tq")
    grown = FILE + b"# a comment alone\n-five\n"
    assert file.with_name("copy.tq").read_bytes() == grown
    assert file.read_bytes() == grown.replace(b"-one", b"=one")

    # What was edited before is refused, and so is a file with other content.
    file.write_bytes(FILE.replace(b"one", b"ONE"))
    assert jjq("text", "import", "jobs.tq", name).code == 5
    assert jjq("text", "export", name, "jobs.tq").code == 5
    assert jjq.ok("text", "import", "jobs.tq", name, "--source", "other").text == "pushed 4 messages\n"
    jjq.ok("text", "export", name, "both.tq")
    assert file.with_name("both.tq").read_bytes() == grown + file.read_bytes()


def test_a_file_of_comments_and_an_empty_one(jjq: Command, tmp_path: Path, name: str) -> None:
    for number, data in enumerate((b"# nothing\n\n", b"", b"\n")):
        (tmp_path / "c.tq").write_bytes(data)
        jjq.ok("text", "import", "c.tq", f"{name}-{number}")
        jjq.ok("text", "export", f"{name}-{number}", f"{number}.tq")
        assert (tmp_path / f"{number}.tq").read_bytes() == data


def test_an_import_of_many_batches_goes_on_where_it_was_killed(
    jjq: Command, tmp_path: Path, name: str
) -> None:
    data = b"".join(b"-%d\n" % n if n % 5 else b"=%d\n more\n\n# c\n" % n for n in range(30_000))
    (tmp_path / "many.tq").write_bytes(data)
    running = jjq.start("text", "import", "many.tq", name)
    wait_until(
        lambda: jjq("replay", name, "--end", "offset:1000").code == 0 or running.poll() is not None,
        "it pushes",
        30,
    )
    running.kill()
    running.communicate()
    jjq.ok("text", "import", "many.tq", name)
    jjq.ok("text", "export", name, "out.tq")
    assert (tmp_path / "out.tq").read_bytes() == data


def test_an_export_follows_a_queue_and_tells_what_it_leaves_out(
    jjq: Command, tmp_path: Path, queue: str
) -> None:
    out = tmp_path / "live.tq"
    jjq.ok("push", queue, "a", "--key", "k")
    assert "keys or headers of 1 elements" in jjq("text", "export", queue, "live.tq").errors
    running = jjq.start("text", "export", queue, "live.tq", "--follow")
    try:
        jjq.ok("push", queue, "b")
        wait_until(lambda: out.read_bytes() == b"-a\n-b\n", "the export has it", 30)
        with TextQueue(out) as items:
            assert [item.value for item in items] == ["a", "b"]
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        running.communicate()
    with out.open("ab") as file:
        file.write(b"-mine\n")
    jjq.ok("push", queue, "c")
    assert jjq("text", "export", queue, "live.tq").code == 5
    assert out.read_bytes() == b"-a\n-b\n-mine\n"
