"""Errors on the wire: each kind of coldstore.shared.errors as a gRPC status with details, and back unchanged.

The details carry a jjq.v1.Error, from which our own clients rebuild the exception with all its
fields, and what generic tools understand: ErrorInfo, BadRequest, RetryInfo. A status that says
nothing of ours comes from gRPC itself or from something in between. Of those only the ones that
speak about the request are believed; after any other one the outcome is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

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
from jjq.limits import ERROR_BYTES_MAX
from jjq.v1 import jjq_pb2 as pb

DETAILS: Final = "grpc-status-details-bin"
DOMAIN: Final = "jjq"
_UNFORESEEN: Final = "the server failed in a way it did not foresee; its log says how"
UNEXPECTED: Final = f"{_UNFORESEEN}. The outcome is unknown"
_Code = grpc.StatusCode


class NoSuchMethod(InvalidInput):
    """The server is of an earlier release than its client: ask it in another way."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one class of error travels: `fields` maps its attributes to fields of jjq.v1.Error."""

    error: type[JjqError]
    number: pb.ErrorKind
    code: grpc.StatusCode
    fields: dict[str, str] = field(default_factory=dict)
    required: dict[str, Any] = field(default_factory=dict)  # where a foreign server left one out


KINDS: Final = (
    Kind(InvalidInput, pb.ERROR_KIND_INVALID_INPUT, _Code.INVALID_ARGUMENT, {"position": "position"}),
    Kind(
        OutOfRange,
        pb.ERROR_KIND_OUT_OF_RANGE,
        _Code.OUT_OF_RANGE,
        {"first": "first", "next": "next"},
        {"first": 0, "next": 0},
    ),
    Kind(NotFound, pb.ERROR_KIND_NOT_FOUND, _Code.NOT_FOUND),
    Kind(Conflict, pb.ERROR_KIND_CONFLICT, _Code.FAILED_PRECONDITION),
    Kind(Fenced, pb.ERROR_KIND_FENCED, _Code.FAILED_PRECONDITION, {"owner": "owner"}),
    Kind(Denied, pb.ERROR_KIND_DENIED, _Code.PERMISSION_DENIED),
    Kind(
        Exhausted,
        pb.ERROR_KIND_EXHAUSTED,
        _Code.RESOURCE_EXHAUSTED,
        {"retry_after": "retry_after_seconds"},
    ),
    Kind(Unavailable, pb.ERROR_KIND_UNAVAILABLE, _Code.UNAVAILABLE),
    Kind(DataLoss, pb.ERROR_KIND_DATA_LOSS, _Code.DATA_LOSS, {"key": "key", "block": "block"}),
)
_CODES: Final = {code.value[0]: code for code in _Code}
_BY_CLASS: Final = {kind.error: kind for kind in KINDS}
_BY_NUMBER: Final = {kind.number: kind for kind in KINDS}
# Statuses without details of ours. RESOURCE_EXHAUSTED is not among them: gRPC also uses it for a reply
# that is too large for this client, when a pop has moved already.
_BARE: Final[dict[grpc.StatusCode, type[JjqError]]] = {
    _Code.INVALID_ARGUMENT: InvalidInput,
    _Code.UNIMPLEMENTED: NoSuchMethod,
    _Code.NOT_FOUND: NotFound,
    _Code.ALREADY_EXISTS: Conflict,
    _Code.FAILED_PRECONDITION: Conflict,
    _Code.PERMISSION_DENIED: Denied,
    _Code.UNAUTHENTICATED: Denied,
    _Code.DATA_LOSS: DataLoss,
}


def kind_of(error: JjqError) -> Kind:
    """The entry of an error's class, or of the nearest class above it."""
    for ancestor in type(error).__mro__:
        if ancestor in _BY_CLASS:
            return _BY_CLASS[ancestor]
    return _BY_CLASS[Unavailable]


def error_out(error: BaseException) -> pb.Error:
    """An error as a message; the outcome of what nobody foresaw is unknown."""
    if not isinstance(error, JjqError):
        error = Unavailable(UNEXPECTED)
    kind = kind_of(error)
    message = pb.Error(kind=kind.number, message=_short(error.message))
    for name, wire in kind.fields.items():
        value = getattr(error, name)
        if value is not None:
            setattr(message, wire, value)
    return message


def error_in(message: pb.Error) -> JjqError:
    """The error that a message stands for; an unknown kind means an unknown outcome."""
    kind = _BY_NUMBER.get(message.kind)
    if kind is None:
        return Unavailable(message.message)
    given = {name: getattr(message, wire) for name, wire in kind.fields.items() if message.HasField(wire)}
    return kind.error(message.message, **(kind.required | given))


def status_out(error: JjqError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Code, text and trailing metadata that tell a client about `error`."""
    kind = kind_of(error)
    message = error_out(error)
    number: int = kind.code.value[0]
    status = status_pb2.Status(code=number, message=message.message)
    status.details.extend(_packed(detail) for detail in _details(error, message))
    return kind.code, message.message, ((DETAILS, status.SerializeToString()),)


def _details(error: JjqError, message: pb.Error) -> list[Message]:
    reason = pb.ErrorKind.Name(message.kind).removeprefix("ERROR_KIND_")
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN)
    for name in kind_of(error).fields.values():
        if message.HasField(name):
            info.metadata[name] = str(getattr(message, name))
    details: list[Message] = [message, info]
    if isinstance(error, InvalidInput):
        where = "" if error.position is None else f"elements[{error.position}]"
        violation = error_details_pb2.BadRequest.FieldViolation(field=where, description=message.message)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, Exhausted):
        delay = error_details_pb2.RetryInfo()
        delay.retry_delay.FromNanoseconds(round(error.retry_after * 1e9))
        details.append(delay)
    return details


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


def _short(text: str) -> str:
    """`text` cut to what trailers hold; its encoding may grow threefold."""
    data = text.encode("utf-8", "replace")
    if len(data) <= ERROR_BYTES_MAX:
        return data.decode()
    return data[: ERROR_BYTES_MAX - 3].decode("utf-8", "ignore") + "…"


def status_in(error: grpc.aio.AioRpcError, *, writes: bool = True) -> JjqError:
    """The exception for a failed call. If the call `writes`, it says that the outcome is unknown."""
    metadata = error.trailing_metadata()
    raw = metadata.get(DETAILS) if metadata is not None else None
    rebuilt = None if raw is None else _rich(raw if isinstance(raw, bytes) else raw.encode())
    return rebuilt or _from_code(error.code(), error.details() or "", writes)


def status_message_in(raw: bytes, *, writes: bool = True) -> JjqError:
    """The same for a call that was not made over gRPC: its error is a google.rpc.Status."""
    rebuilt = _rich(raw)
    if rebuilt is not None:
        return rebuilt
    try:
        status = status_pb2.Status.FromString(raw)
    except DecodeError:
        return Unavailable("the server's error is no google.rpc.Status; the outcome is unknown")
    return _from_code(_CODES.get(status.code, _Code.UNKNOWN), status.message, writes)


def _from_code(code: grpc.StatusCode, text: str, writes: bool) -> JjqError:
    bare = _BARE.get(code)
    if bare is not None:
        return bare(text or code.name)
    if code is _Code.INTERNAL and text == UNEXPECTED:
        return Unavailable(UNEXPECTED if writes else _UNFORESEEN)
    if code is _Code.DEADLINE_EXCEEDED:
        said = "the server did not answer in time (DEADLINE_EXCEEDED)"
    else:
        said = f"{code.name}: {text or 'no details'}"
    return Unavailable(f"{said}; the outcome is unknown" if writes else said)


def _rich(raw: bytes) -> JjqError | None:
    try:
        for detail in status_pb2.Status.FromString(raw).details:
            message = pb.Error()
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
                return error_in(message)
    except DecodeError:
        return None
    return None
