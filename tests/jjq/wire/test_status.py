"""Every kind of error survives the wire, and every status of gRPC becomes a kind."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from coldstore.shared.errors import (
    KINDS,
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
from jjq.client.groups.task import RefusedTasks
from jjq.limits import METADATA_BYTES_SOFT
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import status

EXAMPLES: list[JjqError] = [
    InvalidInput("wrong"),
    InvalidInput("wrong at the fourth", position=3),
    InvalidInput("wrong at the first", position=0),
    OutOfRange("outside", first=2, next=7),
    NotFound("nothing there"),
    Conflict("changed"),
    Fenced("moved", owner="b:7575"),
    Fenced("moved to nobody knows where"),
    Denied("no"),
    Exhausted("later", retry_after=2.5),
    Exhausted("now", retry_after=0.0),
    Unavailable("who knows"),
    DataLoss("damaged", key="queues/a/data/x", block=12),
    DataLoss("damaged somewhere"),
]


def subclasses(kind: type[JjqError]) -> set[type[JjqError]]:
    found = set(kind.__subclasses__())
    return found.union(*(subclasses(below) for below in found))


def failed(error: JjqError) -> grpc.aio.AioRpcError:
    code, text, trailers = status.status_out(error)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), text)


def test_every_kind_and_every_class_has_its_place() -> None:
    product = {kind for kind in subclasses(JjqError) if kind.__module__ == "jjq"}
    product -= {RefusedTasks}  # made by clients, of outcomes that crossed the wire
    assert {kind.error for kind in status.KINDS} == product
    assert set(KINDS) <= product
    assert {type(example) for example in EXAMPLES} == product
    numbers = set(pb.ErrorKind.values()) - {pb.ERROR_KIND_UNSPECIFIED}
    assert {kind.number for kind in status.KINDS} == numbers


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
def test_an_error_arrives_as_the_same_class_with_the_same_fields(error: JjqError) -> None:
    for arrived in (status.status_in(failed(error)), status.error_in(status.error_out(error))):
        assert type(arrived) is type(error)
        assert vars(arrived) == vars(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
def test_generic_tools_find_the_standard_details(error: JjqError) -> None:
    code, text, trailers = status.status_out(error)
    rich = status_pb2.Status.FromString(trailers[0][1])
    assert (rich.code, rich.message) == (code.value[0], text)
    info, request, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    found = {type(d): d for d in (info, request, retry) if any(p.Unpack(d) for p in rich.details)}
    assert found[error_details_pb2.ErrorInfo].reason == (
        "FENCED" if isinstance(error, Fenced) else info.reason
    )
    if isinstance(error, OutOfRange):
        assert dict(info.metadata) == {"first": "2", "next": "7"}
    if isinstance(error, InvalidInput) and error.position:
        assert request.field_violations[0].field == f"elements[{error.position}]"
    if isinstance(error, Exhausted):
        assert retry.retry_delay.ToTimedelta().total_seconds() == error.retry_after


def test_an_unknown_kind_means_an_unknown_outcome() -> None:
    assert type(status.error_in(pb.Error(kind=99, message="?"))) is Unavailable  # type: ignore[arg-type]
    assert type(status.error_in(pb.Error())) is Unavailable


CERTAIN = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.UNIMPLEMENTED: status.NoSuchMethod,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
    grpc.StatusCode.UNAUTHENTICATED: Denied,
    grpc.StatusCode.DATA_LOSS: DataLoss,
}


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_a_status_without_details_is_certain_or_of_unknown_outcome(code: grpc.StatusCode) -> None:
    bare = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "text")
    assert type(status.status_in(bare)) is CERTAIN.get(code, Unavailable)


def test_damaged_details_are_ignored() -> None:
    trailers = grpc.aio.Metadata((status.DETAILS, b"\xff\xff"))
    bare = grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailers, "gone")
    assert type(status.status_in(bare)) is NotFound


def test_a_long_text_is_cut_to_what_trailers_hold() -> None:
    _, text, trailers = status.status_out(InvalidInput("→" * 10_000, position=1))
    assert text.endswith("…")
    assert 3 * len(text.encode()) + 4 * len(trailers[0][1]) // 3 < METADATA_BYTES_SOFT


def test_an_error_class_of_someone_else_travels_as_the_kind_above_it() -> None:
    class Stale(Conflict):
        pass

    assert status.status_out(Stale("old"))[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert status.status_out(JjqError("bare"))[0] is grpc.StatusCode.UNAVAILABLE
