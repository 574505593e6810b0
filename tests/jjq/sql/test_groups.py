"""Worker groups as tables: groups, tasks as they are, what happened to each; and a ledger by its own name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import jjq
from jjq.sql.source import ColdVerbs
from jjq.sql.system_tables import TableSource, make


@pytest.fixture
def client(tmp_path: Path) -> Iterator[jjq.Client]:
    """Group jobs/billing: task 0 is done, 1 is buried, 2 is taken, 3 and 4 are ready; jobs/mail has taken nothing."""
    with jjq.open(tmp_path) as made:
        made.create_queue("jobs", content="text")
        made.create_queue("other")
        made.create_group("jobs", "billing", max_attempts=1)
        made.create_group("jobs", "mail")
        made.create_group("other", "nobody")
        made.push("jobs", [f"job {n}" for n in range(5)])
        first, second, _ = made.take("jobs/billing", max=3)
        made.ack("jobs/billing", first)
        made.nack("jobs/billing", second, reason="no such account")
        yield made


def ask(client: jjq.Client, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in client.sql(query).to_pylist()]


def test_groups_tell_how_many_tasks_are_in_each_state(client: jjq.Client) -> None:
    counts = "SELECT id, ready, taken, buried, done, max_attempts, ledger FROM jjq.groups ORDER BY id"
    assert ask(client, counts) == [
        ("jobs/billing", 2, 1, 1, 1, 1, "jobs~billing"),
        ("jobs/mail", 5, 0, 0, 0, None, "jobs~mail"),
        ("other/nobody", 0, 0, 0, 0, None, "other~nobody"),
    ]
    assert ask(client, "SELECT id FROM jjq.groups WHERE queue = 'other'") == [("other/nobody",)]


def test_tasks_are_joined_with_their_elements(client: jjq.Client) -> None:
    joined = """SELECT t.task, t.state, t.attempt, t.reason, j.value FROM jjq.tasks t JOIN jobs j ON j.offset = t.task
                WHERE t.queue = 'jobs' AND t."group" = 'billing' ORDER BY t.task"""
    rows = ask(client, joined)
    assert [row[:3] for row in rows if row[1] != "done"] == [
        (1, "buried", 1),
        (2, "taken", 1),
        (3, "ready", 0),
        (4, "ready", 0),
    ]
    assert [row[3:] for row in rows if row[1] == "buried"] == [("no such account", "job 1")]


def test_transitions_are_the_ledgers_also_after_a_seal(client: jjq.Client) -> None:
    life = """SELECT event, task, "count", state, reason FROM jjq.transitions
              WHERE queue = 'jobs' AND "group" = 'billing' AND state IS NOT NULL ORDER BY offset"""
    before = ask(client, life)
    assert before == [
        ("take", 0, 3, "taken", None),
        ("ack", 0, 1, "done", None),
        ("nack", 1, 1, "buried", "no such account"),
    ]
    client.seal("jobs~billing")
    assert ask(client, life) == before
    own = 'SELECT value.event, value.task FROM "jobs~billing" WHERE value.state IS NOT NULL ORDER BY offset'
    assert ask(client, own) == [("take", 0), ("ack", 0), ("nack", 1)]


@pytest.mark.parametrize("table", ["groups", "tasks", "transitions"])
async def test_a_cold_store_alone_says_who_knows_of_groups(table: str) -> None:
    source = TableSource(ColdVerbs(cast("Any", None)))
    with pytest.raises(jjq.InvalidInput, match="known to servers only"):
        await make(table, source, None)
