"""The requests and replies of the protocol, and their JSON form; bincode.py has the binary form.

A text frame is JSON, a binary frame is bincode, whatever the other side is sent. Fields that the published description
omits have defaults here, although the protocol's own server requires them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import orjson

from coldstore.shared.errors import InvalidInput
from hotstore.limits import PRIORITY_MAX
from jjq.http.strict_json import explain, suspect_document
from jjq.limits import CONNECT_NOTICES_MAX

Firmness = Literal["ready", "write", "sync"]
NoticeName = Literal["ready", "write", "sync", "assign", "finish", "retry", "drop"]
ErrorCode = Literal["NoObject", "ObjectAlreadyExists", "PermissionDenied"]

_U32: Final = 2**32
_U64: Final = 2**64


class PostRequest(NamedTuple):
    queue: str
    message: bytes
    priority: int = 0  # a larger one is handed out first
    label: int = 0
    notify: tuple[NoticeName, ...] = ()


class FetchRequest(NamedTuple):
    queue: str
    block_timeout: float | None
    work_timeout: float
    sync: Firmness = "ready"
    label: int = 0


class FinishRequest(NamedTuple):
    queue: str
    sequence: int
    shard: int
    label: int | None = None
    response: Firmness | None = None


class PopRequest(NamedTuple):
    queue: str
    sync: Firmness = "ready"
    timeout: float | None = None
    label: int = 0


class CreateRequest(NamedTuple):
    queue: str
    label: int = 0
    retries: int | None = None
    shard_max_entries: int | None = None
    shard_max_bytes: int | None = None


SocketRequest = PostRequest | FetchRequest | FinishRequest | PopRequest | CreateRequest


class MessageReply(NamedTuple):
    label: int
    shard: int
    sequence: int
    body: bytes
    finished: bool


class NoticeReply(NamedTuple):
    label: int
    notice: NoticeName


class HelloReply(NamedTuple):
    id: int


class NoMessageReply(NamedTuple):
    label: int


class ErrorReply(NamedTuple):
    label: int
    code: ErrorCode
    key: str


SocketReply = MessageReply | NoticeReply | HelloReply | NoMessageReply | ErrorReply


# JSON ----------------------------------------------------------------------------------------------------

_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
_Priority = Annotated[int, msgspec.Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)]
_Notices = Annotated[tuple[NoticeName, ...], msgspec.Meta(max_length=CONNECT_NOTICES_MAX)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Post(msgspec.Struct, tag_field="type", tag="post"):
    queue: str
    message: str | list[_Byte]
    priority: _Priority = 0
    label: _Natural = 0
    notify: _Notices = ()


class _Fetch(msgspec.Struct, tag_field="type", tag="fetch"):
    queue: str
    work_timeout: float
    block_timeout: float | None = None
    sync: Firmness = "ready"
    label: _Natural = 0


class _Finish(msgspec.Struct, tag_field="type", tag="finish"):
    queue: str
    sequence: _Natural
    shard: _Natural
    label: _Natural | None = None
    response: Firmness | None = None


class _Pop(msgspec.Struct, tag_field="type", tag="pop"):
    queue: str
    sync: Firmness = "ready"
    timeout: float | None = None
    label: _Natural = 0


class _Create(msgspec.Struct, tag_field="type", tag="create"):
    queue: str
    label: _Natural = 0
    retries: _Natural | None = None
    shard_max_entries: _Natural | None = None
    shard_max_bytes: _Natural | None = None


_DECODER: Final = msgspec.json.Decoder(_Post | _Fetch | _Finish | _Pop | _Create)
_TYPES: Final[dict[type, str]] = {
    MessageReply: "message",
    NoticeReply: "notice",
    HelloReply: "hello",
    NoMessageReply: "nomessage",
    ErrorReply: "error",
}


def decode_json(text: bytes) -> SocketRequest:
    """The request in a text frame, or `InvalidInput`, which says what is wrong and where."""
    for suspect in suspect_document(text):
        explain(suspect)
    try:
        found: Any = _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"the frame is not a request: {error}") from None
    request = _REQUESTS[type(found)](found)
    _check_numbers(request)
    return request


def _post(found: _Post) -> PostRequest:
    body = found.message
    try:
        message = body.encode() if isinstance(body, str) else bytes(body)
    except UnicodeEncodeError:
        raise InvalidInput("the message has half of a surrogate pair: send an array of bytes") from None
    return PostRequest(found.queue, message, found.priority, found.label, found.notify)


_REQUESTS: Final[dict[type, Callable[[Any], SocketRequest]]] = {
    _Post: _post,
    _Fetch: lambda f: FetchRequest(f.queue, f.block_timeout, f.work_timeout, f.sync, f.label),
    _Finish: lambda f: FinishRequest(f.queue, f.sequence, f.shard, f.label, f.response),
    _Pop: lambda f: PopRequest(f.queue, f.sync, f.timeout, f.label),
    _Create: lambda f: CreateRequest(f.queue, f.label, f.retries, f.shard_max_entries, f.shard_max_bytes),
}
_WIDTHS: Final = {"shard": _U32, "retries": _U32}


def _check_numbers(request: SocketRequest) -> None:
    """Refuse numbers that the binary form could not hold; replies repeat labels in either form."""
    fields: dict[str, Any] = request._asdict()
    for name, value in fields.items():
        if isinstance(value, int) and value >= _WIDTHS.get(name, _U64):
            raise InvalidInput(f"{name} is {value}, which has more than {_WIDTHS.get(name, _U64) - 1:#x}")


def encode_json(reply: SocketReply) -> str:
    """A reply as the text of a frame. A body that is not UTF-8 is an array of bytes."""
    fields: dict[str, Any] = {"type": _TYPES[type(reply)], **reply._asdict()}
    if isinstance(reply, MessageReply):
        try:
            fields["body"] = reply.body.decode()
        except UnicodeDecodeError:
            fields["body"] = list(reply.body)
    return orjson.dumps(fields).decode()
