"""Which right each method of gRPC needs, and on which queue: one table, and one check for all methods.

A method that is not in the table needs the scope admin for all queues, so one that is added later is closed and not
open. Messages of streams are checked one by one, as each may name another queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import grpc

from coldstore.shared.results import queue_part
from jjq.access.keyring import Keyring
from jjq.access.keys import ANY, bearer
from jjq.access.quotas import SPENDER, KeyUsage
from jjq.access.signatures import HEADER as SIGNATURE
from jjq.limits import CHANGE_BYTES_MAX, UPLOAD_MESSAGE_BYTES_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import opened, queue_of
from jjq.wire.batches import request as parse
from jjq.wire.groups.task_messages import split_completion
from jjq.wire.pushes import split_pushes
from jjq.wire.results import split_pops
from jjq.wire.services import PEER, PEER_OPERATOR, READING

# By method; `admin` where none is named. With "*" the right must be one for all queues.
RIGHTS_OF: Final = {
    "GetQueue": ANY,
    "ListQueues": "read",
    "GetStatus": ANY,
    "GetTransports": ANY,
    "CreateSubscriber": "pop",
    "GetSubscriber": "pop|read",
    "ListSubscribers": "read",
    "DeleteSubscriber": "pop",
    "Seek": "pop",
    "Sleep": "pop",
    "Wakeup": "pop",
    "Confirm": "pop",
    "Push": "push",
    "PushStream": "push",
    "UploadObject": "push",
    "DownloadObject": "pop|read|work",
    "Pop": "pop",
    "PopStream": "pop",
    "Peek": "pop|read",
    "Subscribe": "pop",
    "Read": "read",
    "Query": "read",  # it may name any queue, so the right must be one for all
    "ListBlocks": "read",
    "GetGroup": "work|read",
    "ListGroups": "work|read",
    "GetGroupStatistics": "work|read",
    "PeekTask": "work|read",
    "ListTasks": "work|read",
    "TasksAt": "work|read",
    "Take": "work",
    "ChangeTasks": "work",
    "KickTasks": "work",
    "CompleteTasks": "work",  # and push, on the queues that it pushes to
    "Work": "work",
}
WAITING: Final = frozenset(
    {"Pop", "Peek", "Take"}
)  # verbs that may wait for long, and change nothing meanwhile
_PUSHING: Final = frozenset({"Push", "PushStream"})
_OF_ALL: Final = frozenset({"CreateKey", "ListKeys", "RevokeKey"})  # their `name` is no queue's
_PEERS: Final = frozenset({PEER, PEER_OPERATOR})
_KINDS: Final[dict[str, Any]] = {
    method.name: getattr(pb, method.input_type.name)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def rights_of(method: str) -> str:
    """What a key needs for a method."""
    return RIGHTS_OF.get(method, "admin")


def is_audited(service: str, method: str) -> bool:
    """Whether a call is an act of an administrator, which the audit queue records."""
    return service not in _PEERS and rights_of(method) == "admin" and method not in READING


class CallAccess:
    """One call: whose it is, and whether its messages may be served."""

    def __init__(self, ring: Keyring, service: str, method: str, context: Any) -> None:
        self._ring = ring
        self._method = method
        self._peer = service in _PEERS
        self._rights = rights_of(method)
        self._key = key_in(context)
        self._signature = metadata_of(context, SIGNATURE) if method == "Push" else None
        self._usage: KeyUsage | None = None
        self._queue = ""  # that the last push of a stream named
        self._used: set[tuple[str | None, str]] = set()  # queues and rights, so far

    def check(self, raw: bytes) -> None:
        """Return if this message may be served; `NoKey` or `Denied` if not."""
        if not self._ring.closed:
            return  # who goes on without a key is ended when there is one: `recheck`
        if self._peer:
            self._ring.require_peer(self._key)
            return
        if self._method == "Work":  # each of its requests is answered by itself: see `require`
            self._ring.identify(self._key)
            return
        rights = self._rights
        if self._method == "CreateSubscriber" and parse(pb.CreateSubscriberRequest, raw).dry_run:
            rights = "pop|read"  # it only looks where a starting point leads
        if self._method in _PUSHING:
            for queue, nbytes in self._pushes_of(raw):
                self._require(queue, rights)
                self._ring.check_signature(queue, self._signature, raw)
                self._ring.check_size(queue, nbytes)
        else:
            for named in self._queues(raw):
                self._require(named, rights)
        if self._method == "CompleteTasks":
            for span in split_completion(raw)[1]:
                queue = opened(pb.PushRequest, *span)[0].queue
                self._require(queue, "push")
                self._ring.check_signature(queue, None, raw)
                self._ring.check_size(queue, span.end - span.begin)
        if self._usage is not None and self._method in {"Push", "CompleteTasks"}:
            self._usage.check()

    def require(self, queue: str) -> None:
        """Return if a request about this queue, of a stream that answers each by itself, may be served."""
        if self._ring.closed and not self._peer:
            self._require(queue, self._rights)

    def _require(self, queue: str | None, rights: str) -> None:
        key = self._ring.require(self._key, rights, queue)
        self._used.add((queue, rights))
        if self._usage is None and (usage := self._ring.usage(key)) is not None:
            self._usage = usage
            SPENDER.set(usage)

    @property
    def key(self) -> str | None:
        """The text of the key that is shown."""
        return self._key

    @property
    def queue(self) -> str | None:
        """The queue that the call was about, if it was about one."""
        return next((queue for queue, _ in self._used), None)

    def seconds(self) -> float:
        """How long a stream of pushes should wait before its next message."""
        return self._usage.seconds() if self._usage is not None and self._method == "PushStream" else 0.0

    def stream(self) -> AbstractContextManager[None]:
        """Around a stream; `NoKey` if it has no known key, `Exhausted` if its key has too many streams."""
        if self._peer or not self._ring.closed:
            return nullcontext()
        usage = self._ring.usage(self._ring.identify(self._key))
        return nullcontext() if usage is None else usage.stream()

    def recheck(self) -> None:
        """The same for all that was served so far; what named no queue yet has to be somebody's."""
        if self._peer:
            self._ring.require_peer(self._key)
            return
        self._ring.identify(self._key)
        for queue, rights in self._used:
            self._ring.require(self._key, rights, queue)

    def _queues(self, raw: bytes) -> Iterable[str | None]:
        if self._method == "PopStream":
            return [queue_part(each.pop.subscriber) for each in split_pops(raw)]
        if self._method == "CompleteTasks":
            return [queue_part(split_completion(raw)[0].group)]
        if self._method == "ChangeTasks":
            return [queue_of(parse(pb.ChangeTasksRequest, raw, CHANGE_BYTES_MAX)) or None]
        if self._method == "Subscribe":
            asked = parse(pb.SubscribeRequest, raw)
            return [queue_part(asked.start.subscriber)] if asked.HasField("start") else []
        if (
            self._method == "UploadObject"
        ):  # the pieces after it belong to the upload that was begun on this stream
            step = parse(pb.UploadObjectRequest, raw, UPLOAD_MESSAGE_BYTES_MAX)
            return [step.begin.queue] if step.HasField("begin") else []
        kind = _KINDS.get(self._method)
        if kind is None or self._method in _OF_ALL:
            return [None]
        return [queue_of(parse(kind, raw)) or None]

    def _pushes_of(self, raw: bytes) -> Iterator[tuple[str, int]]:
        """The queue of each push, and its size."""
        for span in split_pushes(raw):
            request, _ = opened(pb.PushRequest, *span)
            self._queue = request.queue or self._queue
            yield self._queue, span.end - span.begin


def key_in(context: grpc.aio.ServicerContext[Any, Any]) -> str | None:
    """The key that a call shows."""
    return bearer(metadata_of(context, "authorization"))


def metadata_of(context: grpc.aio.ServicerContext[Any, Any], wanted: str) -> str | None:
    """What a call says beside its messages."""
    for name, value in context.invocation_metadata() or ():
        if name == wanted:
            return value if isinstance(value, str) else value.decode("latin-1")
    return None
