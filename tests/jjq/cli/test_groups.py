"""`jjq group`, `jjq task` and `jjq work`, end to end."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime

import pytest

from coldstore.shared.clock import SystemClock
from tests.jjq.cli.command import Command
from tests.servers.waiting import wait_until


@pytest.fixture
def group(jjq: Command, queue: str) -> str:
    """A group over a queue with three elements."""
    jjq.ok("push", queue, "one", "two", "three", "--key", "k")
    jjq.ok("group", "create", queue, "g")
    return f"{queue}/g"


def test_groups_are_created_listed_shown_changed_and_deleted(jjq: Command, queue: str) -> None:
    made = jjq.ok(
        "group", "create", queue, "g", "--driver", "fifottl", "--ttr", "5", "--max-attempts", "3", "--ttl", "90",
        "--backoff", "1,2,60", "--on-exhausted", "drop", "--json",
    ).json  # fmt: skip
    assert (made["id"], made["ledger"], made["settings"]["max_attempts"]) == (f"{queue}/g", f"{queue}~g", 3)
    assert made["settings"]["backoff"] == {"base": 1.0, "factor": 2.0, "max": 60.0, "jitter": 0.1}
    assert [g["id"] for g in jjq.ok("group", "list", queue, "--json").json] == [f"{queue}/g"]
    table = jjq.ok("group", "list").lines
    assert table[0].split()[:3] == ["GROUP", "DRIVER", "READY"]
    assert [f"{queue}/g", "fifottl", "0"] in [line.split()[:3] for line in table]
    assert made["ledger"] not in jjq.ok("queue", "list").text
    assert made["ledger"] in jjq.ok("queue", "list", "--ledgers").text
    shown = jjq.ok("group", "show", f"{queue}/g").text
    assert "3, then drop" in shown
    assert "90 s" in shown
    changed = jjq.ok("group", "update", f"{queue}/g", "--ttr", "7", "--clear", "ttl", "--json").json
    assert (changed["settings"]["ttr"], changed["settings"]["ttl"]) == (7.0, None)
    assert jjq.ok("group", "pause", f"{queue}/g", "--json").json["paused"] is True
    assert jjq.ok("group", "resume", f"{queue}/g", "--json").json["paused"] is False
    assert jjq.ok("group", "seek", f"{queue}/g", "beginning", "--dry-run", "--json").json["first"] == 0
    assert jjq.ok("group", "delete", f"{queue}/g").text == ""
    assert jjq.ok("group", "list", queue, "--json").json == []


def test_mistakes_have_their_exit_codes(jjq: Command, queue: str, group: str) -> None:
    assert jjq("group", "show", f"{queue}/none").code == 3
    assert jjq("group", "create", queue, "h", "--driver", "nope").code == 2
    assert jjq("group", "create", queue, "h", "--backoff", "much").code == 2
    assert jjq("group", "update", group).code == 2
    assert jjq("group", "update", group, "--clear", "ttr").code == 2
    assert jjq("task", "ack", group).code == 2
    assert jjq("task", "ack", group, "0").code == 2
    assert jjq("task", "ack", group, "0:1").code == 5
    assert jjq("task", "at", group, "yesterday").code == 2
    assert jjq("work", group).code == 2


def test_what_one_command_takes_the_next_one_acks(jjq: Command, group: str) -> None:
    taken = [json.loads(line) for line in jjq.ok("task", "take", group, "-n", "2", "--json").lines]
    assert [(t["task"], t["value"], t["key"]) for t in taken] == [("0:1", "one", "k"), ("1:1", "two", "k")]
    assert jjq("task", "ack", group, "0:1", "--session", "other").code == 5
    jjq.ok("task", "ack", group, "0:1")
    jjq.ok("task", "touch", group, "30", "1:1")
    jjq.ok("task", "nack", group, "1:1", "--delay", "1000", "--reason", "no ink")
    peeked = jjq.ok("task", "peek", group, "1", "--json").json
    assert (peeked["state"], peeked["reason"], peeked["value"]) == ("delayed", "no ink", "two")
    assert "no ink" in jjq.ok("task", "peek", group, "1").text
    table = jjq.ok("task", "take", group).lines
    assert (table[0].split()[0], table[1].split()[0], table[1].split()[-1]) == ("TASK", "2:1", "three")
    jjq.ok("task", "release", group, "2:1")
    jjq.ok("task", "bury", group, "2", "--reason", "odd")
    buried = jjq.ok("task", "list", group, "--state", "buried", "--json").json
    assert [(t["id"], t["reason"]) for t in buried] == [(2, "odd")]
    assert jjq.ok("task", "kick", group, "--count", "9").text == "kicked 1\n"
    jjq.ok("task", "delete", group, "2")
    assert [line.split()[:2] for line in jjq.ok("task", "list", group).lines[1:]] == [["1", "delayed"]]
    done = jjq.ok("task", "list", group, "--state", "done", "--json").json
    assert [(t["id"], t["state"]) for t in done] == [(0, "done"), (2, "done")]
    stats = jjq.ok("group", "stats", group, "--json").json
    assert (stats["tasks"]["done"], stats["calls"]["ack"], stats["calls"]["kick"]) == (2, 1, 1)
    assert "tasks delayed" in jjq.ok("group", "stats", group).text


def test_all_tasks_of_a_group_are_released_and_purged(jjq: Command, group: str) -> None:
    jjq.ok("task", "take", group, "-n", "2")
    assert jjq.ok("group", "release-all", group).text == "released 2\n"
    assert jjq("group", "purge", group).code == 2
    assert jjq.ok("group", "purge", group, "--yes").text == "purged 3\n"
    assert jjq.ok("task", "list", group, "--json").json == []


def test_a_task_is_completed_with_pushes_to_other_queues(jjq: Command, queue: str, group: str) -> None:
    jjq.ok("queue", "create", f"{queue}-out")
    jjq.ok("task", "take", group, "-n", "2")
    done = jjq.ok("task", "complete", group, "0:1", "--push", f"{queue}-out=a=1", "--push", f"{queue}-out=b")
    assert done.text == f"{queue}-out: 2 from offset 0 on\n"
    assert jjq.ok("replay", f"{queue}-out").lines == ["a=1", "b"]
    assert jjq("task", "complete", group, "0:1", "--push", f"{queue}-out=c").code == 5
    assert jjq("task", "complete", group, "1:1", "--push", f"{queue}-out").code == 2
    again = jjq.ok("task", "complete", group, "1:1", "--push", f"{queue}-out=c", "--json").json
    assert again == {f"{queue}-out": 2}


def test_changes_are_printed_as_they_come(jjq: Command, group: str) -> None:
    process = jjq.start("group", "changes", group, "--start", "beginning")
    try:
        jjq.ok("task", "bury", group, "1", "--reason", "odd")
        assert process.stdout is not None
        rows = iter(process.stdout.readline, b"")
        found = next(row for row in map(json.loads, rows) if row["event"] == "bury")
    finally:
        process.kill()
        process.communicate()
    assert (found["task"], found["state"], found["reason"]) == (1, "buried", "odd")


def test_tasks_are_shown_as_they_were(jjq: Command, group: str) -> None:
    then = datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC).isoformat()
    jjq.ok("task", "delete", group, "0")
    states = [row["state"] for row in jjq.ok("task", "at", group, then, "--json").json]
    assert states == ["ready", "ready", "ready"]
    assert [line.split()[1] for line in jjq.ok("task", "at", group, "2100-01-01").lines[1:]] == [
        "done", "ready", "ready",
    ]  # fmt: skip


def test_the_ledger_is_replayed_as_json(jjq: Command, queue: str, group: str) -> None:
    jjq.ok("task", "take", group)
    jjq.ok("task", "ack", group, "0:1")
    events = [json.loads(line)["event"] for line in jjq.ok("replay", f"{queue}~g").lines]
    assert events[-1] == "ack"
    rows = [json.loads(line)["value"] for line in jjq.ok("replay", f"{queue}~g", "--json").lines]
    assert [row["event"] for row in rows] == events
    assert rows[-1]["state"] == "done"


def test_pushed_tasks_have_options(jjq: Command, queue: str) -> None:
    jjq.ok("group", "create", queue, "g", "--driver", "fifottl")
    jjq.ok("push", queue, "later", "--delay", "1000")
    jjq.ok("push", queue, "second")
    jjq.ok("push", queue, "--priority", "-5", "--ttl", "900", "--ttr", "30", input=b"first\n")
    taken = [json.loads(line) for line in jjq.ok("task", "take", f"{queue}/g", "-n", "9", "--json").lines]
    assert [(t["value"], t["priority"]) for t in taken] == [("first", -5), ("second", 0)]
    assert taken[0]["headers"] == {"jjq-priority": "-5", "jjq-ttl": "900", "jjq-ttr": "30"}
    assert jjq("push", queue, "x", "--delay", "-1").code == 2


def test_a_command_works_until_it_is_asked_to_stop(jjq: Command, queue: str, group: str) -> None:
    jjq.ok("group", "update", group, "--max-attempts", "1")
    script = 'read line; echo "$JJQ_TASK $JJQ_ATTEMPT $JJQ_KEY $line"; [ "$line" != two ] || { echo bad >&2; exit 3; }'
    process = jjq.start("work", group, "--", "sh", "-c", script)
    try:
        wait_until(
            lambda: jjq.ok("group", "show", group, "--json").json["tasks"]["done"] == 2, "two are done"
        )
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert sorted(output.decode().split("\n")[:-1]) == ["0 1 k one", "1 1 k two", "2 1 k three"]
    assert b"2 tasks done, 1 failed, 0 lost" in errors
    buried = jjq.ok("task", "peek", group, "1", "--json").json
    assert (buried["state"], buried["reason"]) == ("buried", "CommandFailed: exit code 3: bad")


def test_a_command_that_is_not_there_fails_its_tasks(jjq: Command, group: str) -> None:
    jjq.ok("group", "update", group, "--max-attempts", "1")
    process = jjq.start("work", group, "--concurrency", "3", "--", "./no-such-command")
    try:
        wait_until(
            lambda: jjq.ok("group", "show", group, "--json").json["tasks"]["buried"] == 3, "all failed"
        )
    finally:
        process.kill()
        process.communicate()
    reason = jjq.ok("task", "peek", group, "0", "--json").json["reason"]
    assert reason.startswith("CommandFailed: cannot run ./no-such-command")
