"""jjq: a multi-subscriber log service with an infinite history.

    client = jjq.connect("127.0.0.1:7575")     # servers
    client = jjq.open("./jjq-data")            # or the same verbs in this process, without a server
    queue = jjq.TextQueue("jobs.tq")           # or a file that people can read and edit

`jjq.aio` has the same verbs for asyncio, `jjq.asgi` serves them over HTTP in your own application.
Names are loaded when they are first used, so that importing a part of jjq (as Spark's executors do) does not load
all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coldstore.objects.settings import S3Settings
    from coldstore.shared.attachments import ObjectRef, Reference
    from coldstore.shared.batch import Element
    from coldstore.shared.errors import (
        Conflict,
        DataLoss,
        Denied,
        Exhausted,
        Fenced,
        InvalidInput,
        JjqError,
        NotFound,
        OutOfRange,
        Unavailable,
    )
    from hotstore.groups.values import (
        GroupInfo,
        GroupStatistics,
        RetryBackoff,
        SessionInfo,
        TaskInfo,
        TaskOutcomes,
    )
    from hotstore.port import BlockInfo, Deletion, NodeStatus, QueueInfo, Receipt, Resolved, SubscriberInfo
    from hotstore.settings import HotSettings
    from jjq import aio
    from jjq.blocking import Client, Producer, Replay, SqlResult, Subscription, Worker, connect, open
    from jjq.client.groups.task import RefusedTasks, Task, TaskBatch, TaskReceipt
    from jjq.http.serving import asgi
    from jjq.remote.settings import ClientTls
    from jjq.textqueue.queue import TextQueue

_HOMES = {
    "coldstore.shared.attachments": ("ObjectRef", "Reference"),
    "coldstore.shared.batch": ("Element",),
    "coldstore.shared.errors": (
        "Conflict", "DataLoss", "Denied", "Exhausted", "Fenced", "InvalidInput", "JjqError", "NotFound",
        "OutOfRange", "Unavailable",
    ),
    "coldstore.objects.settings": ("S3Settings",),
    "hotstore.port": (
        "BlockInfo", "Deletion", "NodeStatus", "QueueInfo", "Receipt", "Resolved", "SubscriberInfo",
    ),
    "hotstore.settings": ("HotSettings",),
    "hotstore.groups.values": (
        "GroupInfo", "GroupStatistics", "RetryBackoff", "SessionInfo", "TaskInfo", "TaskOutcomes",
    ),
    "jjq.blocking": ("Client", "Producer", "Replay", "SqlResult", "Subscription", "Worker", "connect", "open"),
    "jjq.client.groups.task": ("RefusedTasks", "Task", "TaskBatch", "TaskReceipt"),
    "jjq.http.serving": ("asgi",),
    "jjq.remote.settings": ("ClientTls",),
    "jjq.textqueue.queue": ("TextQueue",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BlockInfo",
    "Client",
    "ClientTls",
    "Conflict",
    "DataLoss",
    "Deletion",
    "Denied",
    "Element",
    "Exhausted",
    "Fenced",
    "GroupInfo",
    "GroupStatistics",
    "HotSettings",
    "InvalidInput",
    "JjqError",
    "NodeStatus",
    "NotFound",
    "ObjectRef",
    "OutOfRange",
    "Producer",
    "QueueInfo",
    "Receipt",
    "Reference",
    "RefusedTasks",
    "Replay",
    "Resolved",
    "RetryBackoff",
    "S3Settings",
    "SessionInfo",
    "SqlResult",
    "SubscriberInfo",
    "Subscription",
    "Task",
    "TaskBatch",
    "TaskInfo",
    "TaskOutcomes",
    "TaskReceipt",
    "TextQueue",
    "Unavailable",
    "Worker",
    "aio",
    "asgi",
    "connect",
    "open",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("jjq.aio")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'jjq' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
