"""Queues, subscribers, receipts and blocks: the port's types to messages, and back."""

from __future__ import annotations

from typing import Any, cast

from coldstore.shared.attachments import Attached, ObjectRef, Reference
from coldstore.shared.errors import InvalidInput
from coldstore.shared.results import (
    BlockInfo,
    Deletion,
    Loss,
    NodeStatus,
    QueueInfo,
    Receipt,
    Resolved,
    SubscriberInfo,
)
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.enums import BLOCK, CONTENT, STAGE

_QUEUE = (
    "id", "name", "block_bytes", "block_seconds", "created_us", "first_offset", "next_offset",
    "cold_offset", "subscribers",
)  # fmt: skip
_RESOLVED = ("offset", "timestamp_us", "first_offset", "next_offset", "rule")
_SUBSCRIBER = (
    "id", "name", "queue", "offset", "previous", "block", "start", "created_us", "asleep", "lag",
    "lag_seconds",
)  # fmt: skip
_BLOCK = (
    "id", "first_offset", "last_offset", "count", "loaded", "min_timestamp_us", "max_timestamp_us",
    "raw_bytes", "stored_bytes", "sha256", "key", "subscribers",
)  # fmt: skip
_DELETION = ("queue", "id", "deleted_us", "until_us")
_STATUS = (
    "node", "version", "uptime_seconds", "lag_elements", "lag_seconds", "cold_seconds", "cold_error", "error",
)  # fmt: skip
_OPTIONAL = {"timestamp_us", "stored_bytes", "sha256", "key"}


def _fields(source: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _read(message: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: None if name in _OPTIONAL and not message.HasField(name) else getattr(message, name)
        for name in names
    }


def queue_out(info: QueueInfo) -> pb.Queue:
    return pb.Queue(content=cast("pb.Content", CONTENT.number(info.content)), **_fields(info, _QUEUE))


def queue_in(message: pb.Queue) -> QueueInfo:
    return QueueInfo(content=CONTENT.word(message.content), **_read(message, _QUEUE))


def loss_out(loss: Loss) -> pb.Loss:
    return pb.Loss(
        queue=loss.queue,
        ranges=[pb.LostRange(first_offset=first, next_offset=end) for first, end in loss.ranges],
        in_doubt=loss.in_doubt,
        cause=loss.cause,
        next_offset=loss.next_offset,
    )


def loss_in(message: pb.Loss) -> Loss:
    ranges = tuple((each.first_offset, each.next_offset) for each in message.ranges)
    return Loss(message.queue, ranges, message.in_doubt, message.cause, message.next_offset)


def subscriber_out(info: SubscriberInfo) -> pb.Subscriber:
    message = pb.Subscriber(**_fields(info, _SUBSCRIBER))
    if info.resolved is not None:
        message.resolved.CopyFrom(pb.Resolved(**_fields(info.resolved, _RESOLVED)))
    return message


def subscriber_in(message: pb.Subscriber) -> SubscriberInfo:
    resolved = Resolved(**_read(message.resolved, _RESOLVED)) if message.HasField("resolved") else None
    return SubscriberInfo(resolved=resolved, **_read(message, _SUBSCRIBER))


def receipt_out(receipt: Receipt) -> pb.Receipt:
    return pb.Receipt(
        first_offset=receipt.first_offset,
        count=receipt.count,
        timestamp_us=receipt.timestamp_us,
        stage=cast("pb.Stage", STAGE.number(receipt.stage)),
        duplicate=receipt.duplicate,
    )


def receipt_in(message: pb.Receipt) -> Receipt:
    return Receipt(
        message.first_offset,
        message.count,
        message.timestamp_us,
        STAGE.word(message.stage),
        message.duplicate,
    )


def block_out(info: BlockInfo) -> pb.Block:
    return pb.Block(kind=cast("pb.BlockKind", BLOCK.number(info.kind)), **_fields(info, _BLOCK))


def block_in(message: pb.Block) -> BlockInfo:
    return BlockInfo(kind=cast("Any", BLOCK.word(message.kind)), **_read(message, _BLOCK))


def deletion_out(info: Deletion) -> pb.Deletion:
    return pb.Deletion(**_fields(info, _DELETION))


def deletion_in(message: pb.Deletion) -> Deletion:
    return Deletion(**_read(message, _DELETION))


def status_out(info: NodeStatus) -> pb.NodeStatus:
    return pb.NodeStatus(figures=dict(info.figures), **_fields(info, _STATUS))


def status_in(message: pb.NodeStatus) -> NodeStatus:
    return NodeStatus(figures=dict(message.figures), **_read(message, _STATUS))


def attached_out(attached: tuple[Attached, ...]) -> pb.Attachments:
    """What elements of a push name."""
    message = pb.Attachments()
    for element, each in attached:
        one = message.all.add(element=element)
        if isinstance(each, ObjectRef):
            one.object.sha256, one.object.size = each.sha256, each.size
            one.object.media_type, one.object.name = each.media_type, each.name
        else:
            one.reference.uri, one.reference.sha256 = each.uri, each.sha256
            one.reference.media_type, one.reference.name = each.media_type, each.name
            if each.size is not None:
                one.reference.size = each.size
    return message


def attached_in(message: pb.Attachments) -> tuple[Attached, ...]:
    return tuple((one.element, _attachment_in(one)) for one in message.all)


def _attachment_in(one: pb.Attachment) -> ObjectRef | Reference:
    what = one.WhichOneof("what")
    if what == "object":
        found = one.object
        return ObjectRef(found.sha256, found.size, found.media_type, found.name)
    if what == "reference":
        there = one.reference
        size = there.size if there.HasField("size") else None
        return Reference(there.uri, size, there.sha256, there.media_type, there.name)
    raise InvalidInput(f"what element {one.element} names is missing: give an object or a reference")
