"""Errors on HTTP: each is a problem document (RFC 9457) with jjq's own code and with what to do.

    {"type":"urn:jjq:problem:not-found","title":"Not found","status":404,"code":"NOT_FOUND",
     "detail":"queue 'orders' does not exist","advice":"create it, or correct the name","retriable":false,
     "instance":"urn:jjq:request:4f2a…"}

Further fields are those of the error: `position` in a batch, `first` and `next` of a queue, `owner`, `retry_after`, …
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson

from coldstore.shared.errors import (
    Conflict,
    DataLoss,
    Denied,
    Exhausted,
    InvalidInput,
    JjqError,
    NotFound,
    OutOfRange,
    Unavailable,
)
from jjq.access.keys import NoKey
from jjq.wire.status import UNEXPECTED, kind_of

MEDIA_TYPE: Final = b"application/problem+json"
_RETRY_SECONDS: Final = 1.0


class Answer(NamedTuple):
    """How one kind of error is answered."""

    status: int
    title: str
    advice: str


ANSWERS: Final[dict[type[JjqError], Answer]] = {
    InvalidInput: Answer(400, "Wrong request", "correct the request; it cannot succeed as it is"),
    OutOfRange: Answer(400, "Position out of range", "choose a position from first to next, or ask to clamp"),
    NotFound: Answer(404, "Not found", "create it, or correct the name"),
    Conflict: Answer(409, "Conflict", "nothing was written: read the present state, and decide"),
    Denied: Answer(403, "Not allowed", "use a key that has the right"),
    Exhausted: Answer(429, "No room now", "nothing was written: wait retry_after seconds, then retry"),
    Unavailable: Answer(503, "Not available", "the outcome may be unknown: retry with the same identity"),
    DataLoss: Answer(500, "Data loss", "stored bytes are damaged or missing: an operator must look"),
}
_UNFORESEEN: Final = Answer(
    500, "Unforeseen failure", "retry with the same identity; the server's log says more"
)


# What a status of HTTP means in jjq's own words; all others are wrong requests.
_MEANING: Final[dict[int, type[JjqError]]] = {
    404: NotFound,
    409: Conflict,
    412: Conflict,
    503: Unavailable,
}


class HttpRefusal(InvalidInput):
    """A request that HTTP itself has a status for, such as 405 or 415."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-").lower(): value for name, value in headers.items()}


class Refused(NamedTuple):
    """A problem, ready to be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def refuse(error: BaseException, request: str, *, plain: bool = False) -> Refused:
    """The problem document of `error`, or only its text; `request` is the number of the request."""
    document = describe(error, request)
    status = int(document["status"])
    headers = [(b"content-type", b"text/plain; charset=utf-8" if plain else MEDIA_TYPE)]
    if isinstance(error, HttpRefusal):
        headers += [(name.encode(), value.encode("latin-1")) for name, value in error.headers.items()]
    if isinstance(error, NoKey):
        headers.append((b"www-authenticate", b'Bearer realm="jjq"'))
    if status in {429, 503}:
        headers.append((b"retry-after", b"%d" % math.ceil(document.get("retry_after", _RETRY_SECONDS))))
    return Refused(status, headers, document["detail"].encode() if plain else orjson.dumps(document))


def describe(error: BaseException, request: str) -> dict[str, Any]:
    """The fields of the problem document of `error`."""
    if not isinstance(error, JjqError):
        return _fields(_UNFORESEEN, "INTERNAL", UNEXPECTED, True, request)
    answer = next((ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS), _UNFORESEEN)
    if isinstance(error, HttpRefusal):
        kind = _MEANING.get(error.status, InvalidInput)
        refusal = Answer(error.status, HTTPStatus(error.status).phrase, ANSWERS[kind].advice)
        return _fields(refusal, kind.code, error.message, kind.retriable, request)
    if isinstance(error, NoKey):
        answer = Answer(
            401, "No key", "send Authorization: Bearer jjq_<id>_<secret> with a key that is known"
        )
    document = _fields(answer, error.code, error.message, error.retriable, request)
    for name in kind_of(error).fields:
        value = getattr(error, name)
        if value is not None:
            document[name] = value
    return document


def _fields(answer: Answer, code: str, detail: str, retriable: bool, request: str) -> dict[str, Any]:
    kind = answer.title.lower().replace(" ", "-")
    return {
        "type": f"urn:jjq:problem:{kind}",
        "title": answer.title,
        "status": answer.status,
        "code": code,
        "detail": detail.encode("utf-8", "replace").decode(),
        "advice": answer.advice,
        "retriable": retriable,
        "instance": f"urn:jjq:request:{request}",
    }
