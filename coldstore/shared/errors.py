"""The error tree: eight kinds, each telling the caller what to do next.

    JjqError
    ├── InvalidInput   INVALID_ARGUMENT     correct the request; retrying it as it is cannot help
    ├── OutOfRange     OUT_OF_RANGE         choose a position within `first`..`next`
    ├── NotFound       NOT_FOUND            create it, or correct the name
    ├── Conflict       CONFLICT             the state is not the one you expected: read it again, decide
    │   └── Fenced                          … because another node owns the queue now: go there
    ├── Denied         PERMISSION_DENIED    use credentials that have the right
    ├── Exhausted      RESOURCE_EXHAUSTED   nothing was written: wait `retry_after` seconds, then retry
    ├── Unavailable    UNAVAILABLE          the outcome is unknown: retry with the same identity
    └── DataLoss       DATA_LOSS            stored bytes are damaged or missing: an operator must look

Every kind but `Unavailable` is certain: nothing was written on behalf of the failed request; so is an
`Unavailable` that was not `sent`. A new kind is added only when a caller would act differently.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class JjqError(Exception):
    """Any error that jjq raises on purpose; `str()` is one line that says what to do."""

    code: ClassVar[str] = "INTERNAL"
    retriable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Made again without its constructor, whose further arguments are among the attributes: errors travel
        # between the processes of Spark.
        return _again, (type(self), *self.args), self.__dict__

    def copy(self) -> Self:
        """An equal error, to be raised elsewhere: raising an error adds a traceback to it."""
        copy = type(self).__new__(type(self), *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


def _again(kind: type[JjqError], *args: Any) -> JjqError:
    return kind.__new__(kind, *args)


class InvalidInput(JjqError):
    """The request itself is wrong. Correct it; `position` names the element in a batch, if one is at fault."""

    code = "INVALID_ARGUMENT"

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class OutOfRange(JjqError):
    """The position is outside `first`..`next` of the queue. Choose one inside, or ask to clamp."""

    code = "OUT_OF_RANGE"

    def __init__(self, message: str, *, first: int, next: int) -> None:
        super().__init__(message)
        self.first = first
        self.next = next


class NotFound(JjqError):
    """No such queue, subscriber, block or object. Create it or correct the name."""

    code = "NOT_FOUND"


def no_queue(name: str) -> NotFound:
    """For a queue that is not there. Nobody asks for the ledger of a group by its name: `queue~group` is the group."""
    queue, ledger, group = name.partition("~")
    what = f"queue {queue} has no group {group}" if ledger else f"no queue {name}"
    return NotFound(f"{what}: create it, or correct the name")


class Conflict(JjqError):
    """It exists already, or changed since it was read. Nothing was written; read it again and decide."""

    code = "CONFLICT"


class Fenced(Conflict):
    """Another node owns this queue now. Do not retry here: ask the router who does."""

    def __init__(self, message: str, *, owner: str | None = None) -> None:
        super().__init__(message)
        self.owner = owner


class Denied(JjqError):
    """The credentials do not carry the right. Use others; retrying cannot help."""

    code = "PERMISSION_DENIED"


class Exhausted(JjqError):
    """A budget is full and nothing was written. Retry after `retry_after` seconds."""

    code = "RESOURCE_EXHAUSTED"
    retriable = True

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(JjqError):
    """A part could not be reached and the outcome is unknown. Retry with the same identity: it is safe.

    Where `sent` is False the outcome is known: nothing was written, because the request reached no server. Where
    `reached` is False, this client has not reached any server at all; the message says why.
    """

    code = "UNAVAILABLE"
    retriable = True

    def __init__(self, message: str, *, sent: bool = True, reached: bool = True) -> None:
        super().__init__(message)
        self.sent = sent and reached
        self.reached = reached


class DataLoss(JjqError):
    """Stored bytes are damaged or missing; nothing was deleted. `key` names the object, `block` the block."""

    code = "DATA_LOSS"

    def __init__(self, message: str, *, key: str | None = None, block: int | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.block = block


KINDS: tuple[type[JjqError], ...] = (
    InvalidInput, OutOfRange, NotFound, Conflict, Denied, Exhausted, Unavailable, DataLoss,
)  # fmt: skip


for _kind in (JjqError, Fenced, *KINDS):
    _kind.__module__ = "jjq"  # where users know them from: what a traceback says can be imported


def check(holds: bool, broken: str) -> None:
    """Raise where an invariant of ours does not hold; unlike `assert`, `python -O` keeps it."""
    if not holds:
        raise AssertionError(broken)
