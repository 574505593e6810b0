"""The JSON documents of Sqew's messages: what is sent and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Raw, Struct

from coldstore.shared.limits import OFFSET_MAX
from hotstore.limits import PRIORITY_MAX
from jjq.http.v1.documents import Sent
from jjq.limits import SQEW_BATCH_MAX, SQEW_DELAY_MS_MAX

MessageId = Annotated[int, Meta(ge=1, le=OFFSET_MAX)]
DelayMs = Annotated[int, Meta(ge=0, le=SQEW_DELAY_MS_MAX)]


# What is sent --------------------------------------------------------------------------------------------


class NewMessage(Sent):
    """`payload` is any JSON. A larger priority is polled first. The same `idempotency_key` is enqueued once."""

    payload: Raw
    delay_ms: DelayMs = 0
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    idempotency_key: str | None = None


class LeaseReference(Sent):
    """A message, and the token of its lease; without a token: any lease of the message."""

    id: MessageId
    token: str | None = None


class AckOrder(Sent):
    """`id` and perhaps `token`, or several: as `ids`, or as `messages` with their tokens."""

    id: MessageId | None = None
    token: str | None = None
    ids: Annotated[list[MessageId], Meta(max_length=SQEW_BATCH_MAX)] | None = None
    messages: Annotated[list[LeaseReference], Meta(max_length=SQEW_BATCH_MAX)] | None = None


class NackOrder(AckOrder):
    """As an ack. `delay_ms`: when to try again; else after the backoff."""

    delay_ms: DelayMs | None = None


# What is answered ----------------------------------------------------------------------------------------


class SqewMessage(Struct):
    """`payload` is the JSON as a text. Times are milliseconds since 1970, by the server's clock."""

    id: int
    queue_id: int
    payload: str
    attempts: int
    available_at: int
    created_at: int


class LeasedMessage(SqewMessage):
    lease_expires_at: int
    token: str


class LeasedMessages(Struct):
    messages: list[LeasedMessage]


class DeletedCount(Struct):
    deleted: int


class AckedCount(Struct):
    acked: int


class NackedCount(Struct):
    """Dropped are those that failed too often; a queue with a dead letter queue keeps them there."""

    requeued: int
    dropped: int


class RequeuedCount(Struct):
    requeued: int
