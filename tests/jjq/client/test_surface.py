"""The public surface is a list, the same in both faces, and cheap to import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import jjq
import jjq.blocking
import jjq.client.client

NAMES = [
    "BlockInfo", "Client", "ClientTls", "Conflict", "DataLoss", "Deletion", "Denied", "Element", "Exhausted", "Fenced",
    "GroupInfo", "GroupStatistics", "HotSettings", "InvalidInput", "JjqError", "NodeStatus", "NotFound", "ObjectRef",
    "OutOfRange", "Producer", "QueueInfo", "Receipt", "Reference", "RefusedTasks", "Replay", "Resolved",
    "RetryBackoff", "S3Settings",
    "SessionInfo", "SqlResult", "SubscriberInfo", "Subscription", "Task", "TaskBatch", "TaskInfo", "TaskOutcomes",
    "TaskReceipt", "TextQueue", "Unavailable", "Worker", "aio", "asgi", "connect", "open",
]  # fmt: skip
GROUP_VERBS = [
    "ack", "bury", "changes", "complete", "create_group", "delete_group", "delete_tasks", "get_group", "kick",
    "list_groups", "nack", "pause", "peek_task", "purge", "release", "release_all", "resume", "seek_group", "session",
    "statistics", "take", "tasks", "tasks_at", "touch", "update_group", "work",
]  # fmt: skip
VERBS = sorted([
    *GROUP_VERBS,
    "accept_loss", "close", "create_queue", "create_subscriber", "delete_queue", "delete_subscriber",
    "get_queue", "get_subscriber",
    "list_blocks", "list_queues", "list_subscribers", "peek", "peek_batch", "pop", "pop_batch", "producer", "push",
    "push_file", "push_reference",
    "replay", "seal", "seek", "sleep", "sql", "status", "subscribe", "undelete_queue", "update_queue",
    "wakeup",
])  # fmt: skip


def verbs(face: type) -> list[str]:
    return sorted(name for name in dir(face) if not name.startswith("_"))


def test_the_public_names_are_these() -> None:
    assert sorted(jjq.__all__) == NAMES
    assert dir(jjq) == NAMES
    assert all(getattr(jjq, name) is not None for name in NAMES)
    assert sorted(jjq.aio.__all__) == [
        "Client", "Producer", "Pushed", "Replay", "SqlResult", "Subscription", "Worker", "connect", "open",
    ]  # fmt: skip


def test_a_name_that_is_not_public_is_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        jjq.nonsense  # noqa: B018


def test_both_faces_have_the_same_verbs() -> None:
    assert verbs(jjq.client.client.AsyncClient) == verbs(jjq.blocking.Client) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_the_same_arguments_in_both_faces_and_says_what_it_does(verb: str) -> None:
    one, other = getattr(jjq.client.client.AsyncClient, verb), getattr(jjq.blocking.Client, verb)
    assert inspect.signature(one).parameters == inspect.signature(other).parameters
    assert one.__doc__ == other.__doc__ != ""


def test_the_helpers_of_both_faces_match() -> None:
    for name in ("Producer", "Subscription", "Replay", "SqlResult", "Worker"):
        one = {n for n in dir(getattr(jjq.aio, name)) if not n.startswith("_")}
        other = {n for n in dir(getattr(jjq.blocking, name)) if not n.startswith("_")}
        assert other <= one | {"next"}, name


def test_importing_jjq_loads_neither_arrow_nor_grpc() -> None:
    code = "import sys, jjq; sys.exit(any(m in sys.modules for m in ('pyarrow', 'grpc', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_opening_a_store_in_process_does_not_load_grpc(tmp_path: object) -> None:
    code = f"import sys, jjq; jjq.open({str(tmp_path)!r}).close(); sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
