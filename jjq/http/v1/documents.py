"""The JSON documents of the REST interface: what is sent and what is answered. /openapi.json is made of these types.

Documents that are sent refuse fields that they do not know. Times are RFC 3339 in UTC; ages and waits are seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coldstore.shared.limits import NAME_CHARS_MAX, OFFSET_MAX
from coldstore.shared.results import (
    BlockInfo,
    Deletion,
    Loss,
    NodeStatus,
    QueueInfo,
    Receipt,
    SubscriberInfo,
)
from sharding.documents.load import Load
from sharding.ports import NodeState, Plan, Shard, Takeover

Name = Annotated[
    str, Meta(min_length=1, max_length=NAME_CHARS_MAX, description="letters, digits, '.', '_', '-'")
]
Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class Sent(Struct, forbid_unknown_fields=True):
    """A document that a client sends."""


# What is sent --------------------------------------------------------------------------------------------


class NewQueue(Sent):
    name: Name
    content: Literal["bytes", "text", "json"] = "bytes"
    block_bytes: int | None = None
    block_seconds: float | None = None


class QueueChange(Sent):
    content: Literal["bytes", "text", "json"] = "bytes"
    block_bytes: int | None = None
    block_seconds: float | None = None


class QueueUpdate(Sent):
    block_bytes: int | None = None
    block_seconds: float | None = None


class LossDecision(Sent):
    next_offset: Offset | None = None
    dry_run: bool = False


class NewElement(Sent):
    """`value` is text in queues of bytes and text, and any JSON in queues of JSON."""

    value: Raw | UnsetType = UNSET
    value_base64: str | None = None
    key: str | None = None
    key_base64: str | None = None
    headers: dict[str, str] | None = None
    headers_base64: dict[str, str] | None = None


class NewElements(Sent):
    elements: list[NewElement]


class NewSubscriber(Sent):
    name: Name | None = None
    start: str = "end"
    clamp: bool = False
    dry_run: bool = False


class SeekOrder(Sent):
    start: str
    clamp: bool = False
    dry_run: bool = False


class PopOrder(Sent):
    max: Annotated[int, Meta(ge=1, le=10_000)] = 1
    wait_seconds: Annotated[float, Meta(ge=0)] = 0.0
    position: Offset | None = None


class Confirmation(Sent):
    offset: Offset


class DrainOrder(Sent):
    undo: bool = False


class TakeOverOrder(Sent):
    accept_loss: bool = False
    dry_run: bool = False


class MoveOrder(Sent):
    to: Name
    first_offset: Offset | None = None


class SplitOrder(Sent):
    parts: Annotated[int, Meta(ge=0, le=10_000)] = 0
    dry_run: bool = False


# What is answered ----------------------------------------------------------------------------------------


class QueueDocument(Struct):
    id: str
    name: str
    content: Literal["bytes", "text", "json", "ledger"]
    block_bytes: int
    block_seconds: float
    created: datetime
    first_offset: int
    next_offset: int
    cold_offset: int
    subscribers: int


class QueuePage(Struct):
    queues: list[QueueDocument]
    next_page_token: str = ""


class DeletionDocument(Struct):
    queue: str
    id: str
    deleted: datetime
    until: datetime


class LostRange(Struct):
    """From the first offset up to, not including, the next."""

    first_offset: int
    next_offset: int


class LossDocument(Struct):
    queue: str
    ranges: list[LostRange]
    in_doubt: bool
    cause: str
    count: int
    next_offset: int


class BlockDocument(Struct):
    id: int
    first_offset: int
    last_offset: int
    count: int
    kind: Literal["hot-hot", "sealing", "young", "final"]
    loaded: bool
    min_timestamp: datetime
    max_timestamp: datetime
    raw_bytes: int
    stored_bytes: int | None
    sha256: str | None
    key: str | None
    subscribers: int


class BlockPage(Struct):
    blocks: list[BlockDocument]
    next_page_token: str = ""


class ReceiptDocument(Struct):
    first_offset: int
    count: int
    timestamp: datetime
    stage: Literal["ready", "written", "synced", "cold"]
    duplicate: bool


class ResolvedDocument(Struct):
    offset: int
    timestamp: datetime | None
    first_offset: int
    next_offset: int
    rule: str


class SubscriberDocument(Struct):
    id: str
    name: str
    queue: str
    offset: int
    previous: int
    block: int
    start: str
    created: datetime
    asleep: bool
    lag: int
    lag_seconds: float
    resolved: ResolvedDocument | None


class SubscriberPage(Struct):
    subscribers: list[SubscriberDocument]
    next_page_token: str = ""


class ElementDocument(Struct, omit_defaults=True):
    """Bytes that are no UTF-8 stand in the fields that end with _base64.

    A value that was longer than `cut` is not there: `value_cut` has its beginning, `value_bytes` its length.
    """

    offset: int
    timestamp: datetime
    value: Any = None
    value_base64: str | None = None
    value_cut: str | None = None
    value_bytes: int | None = None
    key: str | None = None
    key_base64: str | None = None
    headers: dict[str, str] | None = None
    headers_base64: dict[str, str] | None = None


class ElementPage(Struct):
    """`next` is the offset that follows; `position` that of the first element."""

    elements: list[ElementDocument]
    position: int
    next: int


class LoadDocument(Struct):
    history_bytes: int
    memory_bytes: int
    traffic: float
    shards: int


class NodeDocument(Struct):
    id: str
    address: str
    alive: bool
    draining: bool
    journal: Literal["disk", "s3"]
    load: LoadDocument
    version: str
    uptime_seconds: float


class NodeList(Struct):
    nodes: list[NodeDocument]


class ShardDocument(Struct):
    queue: str
    first_offset: int
    next_offset: int | None
    node: str
    epoch: int
    load: LoadDocument


class ShardPage(Struct):
    shards: list[ShardDocument]
    next_page_token: str = ""


class MoveDocument(Struct):
    shard: ShardDocument
    to: str


class ShareDocument(Struct):
    node: str
    before: float
    after: float


class PlanDocument(Struct):
    moves: list[MoveDocument]
    shares: list[ShareDocument]


class LostDocument(Struct):
    queue: str
    first_offset: int


class TakeoverDocument(Struct):
    node: str
    queues: list[str]
    lost: list[LostDocument]


class StatusDocument(Struct):
    node: str
    version: str
    uptime_seconds: float
    figures: dict[str, float]
    lag_elements: int
    lag_seconds: float
    cold_seconds: float
    cold_error: str
    error: str


class StatusList(Struct):
    nodes: list[StatusDocument]


# From the values of the stores ---------------------------------------------------------------------------


def _same(kind: type[Any], value: object, **changed: Any) -> Any:
    """A document whose fields are attributes of `value`, but for those given."""
    fields = kind.__struct_fields__
    return kind(**{name: changed[name] if name in changed else getattr(value, name) for name in fields})


def queue_document(info: QueueInfo) -> QueueDocument:
    return _same(QueueDocument, info)  # type: ignore[no-any-return]


def deletion_document(deletion: Deletion) -> DeletionDocument:
    return _same(DeletionDocument, deletion)  # type: ignore[no-any-return]


def loss_document(loss: Loss) -> LossDocument:
    return _same(LossDocument, loss, ranges=[LostRange(*each) for each in loss.ranges])  # type: ignore[no-any-return]


def block_document(block: BlockInfo) -> BlockDocument:
    return _same(BlockDocument, block)  # type: ignore[no-any-return]


def receipt_document(receipt: Receipt) -> ReceiptDocument:
    return ReceiptDocument(
        receipt.first_offset, receipt.count, receipt.timestamp, receipt.stage, receipt.duplicate
    )


def subscriber_document(info: SubscriberInfo) -> SubscriberDocument:
    resolved = None if info.resolved is None else _same(ResolvedDocument, info.resolved)
    return _same(SubscriberDocument, info, resolved=resolved)  # type: ignore[no-any-return]


def status_document(status: NodeStatus) -> StatusDocument:
    return _same(StatusDocument, status, figures=dict(status.figures))  # type: ignore[no-any-return]


def _load(load: Load) -> LoadDocument:
    return LoadDocument(load.bytes, load.memory, load.traffic, load.count)


def node_document(state: NodeState) -> NodeDocument:
    return _same(NodeDocument, state.node, alive=state.alive, load=_load(state.node.load))  # type: ignore[no-any-return]


def shard_document(shard: Shard) -> ShardDocument:
    return ShardDocument(shard.queue, shard.first, shard.next, shard.node, shard.epoch, _load(shard.load))


def plan_document(plan: Plan) -> PlanDocument:
    return PlanDocument(
        [MoveDocument(shard_document(move.shard), move.to) for move in plan.moves],
        [ShareDocument(share.node, float(share.before), float(share.after)) for share in plan.shares],
    )


def takeover_document(done: Takeover) -> TakeoverDocument:
    return TakeoverDocument(
        done.node, list(done.moved), [LostDocument(lost.queue, lost.first) for lost in done.lost]
    )
