"""Every method of every door × no key, a wrong key, each scope, and the scope of another queue (FAULTS.md, row 37)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2  # type: ignore[import-untyped]
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from hotstore.groups.values import GroupSettings
from jjq.access.calls import rights_of
from jjq.access.keys import RIGHTS
from jjq.http.routing import LATER
from jjq.http.serving import all_routes
from jjq.server.operator import OperatorVerbs
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.call_frames import HEAD_BYTES, FrameKind, encode_call, head, split_frame
from jjq.wire.services import OPERATOR, PEER_OPERATOR
from tests.jjq.access.keyed import Keyed, keyed

QUEUE = "orders-eu"
WRONG = "jjq_0123456789abcdef_" + "0" * 64
REFUSED = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}


class Nothing(OperatorVerbs):
    """An operator whose verbs do nothing: only whether they are reached matters here."""

    def __init__(self) -> None:
        pass

    def tables(self) -> dict[str, Any]:
        async def answer(raw: bytes) -> bytes:
            return b""

        names = [method.name for method in pb.DESCRIPTOR.services_by_name["Operator"].methods]
        return {service: dict.fromkeys(names, answer) for service in (OPERATOR, PEER_OPERATOR)}


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Keyed]:
    async with keyed(tmp_path, operator=Nothing()) as made:
        await made.store.create_queue(QUEUE)
        await made.store.create_subscriber(QUEUE, "s", "beginning")
        yield made


def message_for(method: Any) -> bytes:
    """A request of this method that is about `QUEUE`, as far as it is about any."""
    kind = getattr(pb, method.input_type.name)
    names = {field.name for field in kind.DESCRIPTOR.fields}
    fields: dict[str, Any] = {}
    if method.name == "Subscribe":
        return pb.SubscribeRequest(start=pb.SubscribeStart(subscriber=f"{QUEUE}/s")).SerializeToString()
    if method.name == "PopStream":
        asked = pb.NumberedPop(id=1, pop=pb.PopRequest(subscriber=f"{QUEUE}/s"))
        return pb.PopStreamRequest(pops=[asked]).SerializeToString()
    if method.name == "Work":
        attach = pb.NumberedWork(id=1, attach=pb.AttachSession(session="s"))
        take = pb.NumberedWork(id=2, take=pb.TakeRequest(group=f"{QUEUE}/g"))
        return pb.WorkRequest(requests=[attach, take]).SerializeToString()
    if method.name == "UploadObject":
        begin = pb.UploadObjectRequest.Begin(queue=QUEUE, sha256="0" * 64, size=1)
        return pb.UploadObjectRequest(begin=begin).SerializeToString()
    if method.name == "CompleteTasks":
        ack = pb.ChangeTasksRequest(group=f"{QUEUE}/g", verb=pb.TASK_VERB_ACK)
        return pb.CompleteTasksRequest(change=ack).SerializeToString()
    if "queue" in names:
        fields["queue"] = QUEUE
    elif "group" in names:
        fields["group"] = f"{QUEUE}/g"
    elif "subscriber" in names and method.name != "GetQueue":
        fields["subscriber"] = f"{QUEUE}/s"
    elif "name" in names and method.name in {"CreateQueue", "GetQueue"}:
        fields["name"] = QUEUE
    return bytes(kind(**fields).SerializeToString())


async def called(doors: Keyed, service: str, method: Any, key: str | None) -> grpc.StatusCode:
    """What becomes of a call."""
    path, raw, shown = f"/{service}/{method.name}", message_for(method), doors.metadata(key)
    try:
        if method.client_streaming:
            stream = doors.channel.stream_stream(path)(metadata=shown, timeout=20)
            await stream.write(raw)
            await stream.done_writing()
            replies = [await stream.read()]
            while method.name == "Work" and replies[-1] is not grpc.aio.EOF:
                replies.append(await stream.read())
            stream.cancel()
            if method.name == "Work" and _denied(replies[:-1]):
                return grpc.StatusCode.PERMISSION_DENIED
        elif method.server_streaming:
            reading = doors.channel.unary_stream(path)(raw, metadata=shown, timeout=20)
            await reading.read()
            reading.cancel()
        else:
            await doors.channel.unary_unary(path)(raw, metadata=shown, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def _denied(replies: list[Any]) -> bool:
    """Whether a request of a Work stream was refused: each is answered by itself."""
    results = [result for raw in replies for result in pb.WorkResponse.FromString(raw).results]
    return any(result.error.kind == pb.ERROR_KIND_DENIED for result in results)


def needs_all(method: str) -> bool:
    """Whether a method is about no queue in particular."""
    return method in {
        "ListQueues", "ListNodes", "DrainNode", "TakeOver", "PlanMoves", "CreateKey", "ListKeys", "RevokeKey", "Query",
    }  # fmt: skip


def may(rights: str, scope: str, everywhere: bool) -> bool:
    """Whether a key with this scope alone may do what needs these rights."""
    right, _, pattern = scope.partition(":")
    if rights == "any" and everywhere:
        return True
    covers = not pattern or (pattern == "orders-*" and not everywhere)
    return covers and (rights == "any" or right in {*rights.split("|"), "admin"})


SCOPES = [f"{right}{pattern}" for right in RIGHTS for pattern in ("", ":orders-*", ":other-*")]


# Which method of gRPC does what a route does. Routes that no method does alone are not here.
SAME = {
    "put_queue": "CreateQueue", "sqew_create": "CreateQueue", "replay": "Read",
    "list_all_subscribers": "ListSubscribers",
    "list_all_groups": "ListGroups", "resume_group": "PauseGroup", "group_statistics": "GetGroupStatistics",
    "sqew_stats": "GetGroupStatistics", "connect_status": "GetGroupStatistics", "get_task": "PeekTask",
    "task_history": "TasksAt", "group_past": "TasksAt", "group_activity": "TasksAt", "sql": "Query",
    "sqew_list": "ListQueues", "sqew_show": "GetQueue", "sqew_delete": "DeleteQueue", "sqew_compact": "SealQueue",
    "sqew_enqueue": "Push", "sqew_messages": "ListTasks", "sqew_peek": "ListTasks", "sqew_message": "PeekTask",
    "sqew_purge": "PurgeGroup", "sqew_poll": "Take", "sqew_remove": "ChangeTasks", "sqew_ack": "ChangeTasks",
    "sqew_nack": "ChangeTasks", "sqew_requeue": "KickTasks",
    "push_file": "Push", "push_reference": "Push", "read_object": "Read", "read_object_by_digest": "DownloadObject",
    **dict.fromkeys(("put_object", "begin_upload", "upload", "finish_upload"), "UploadObject"),
    **{f"{verb}_tasks": "ChangeTasks" for verb in ("ack", "nack", "release", "touch", "bury", "delete")},
}  # fmt: skip
# Of these gRPC has none: their rights are those of administrators, or any key will do.
HTTP_ALONE = {
    "metrics": "any", "openapi": "any", "live": "any", "queue_limit": "any", "purge_queue": "admin",
    "verify_queue": "admin", "sign_queue": "admin", "unsign_queue": "admin", "limit_queue": "admin",
    "unlimit_queue": "admin",
}  # fmt: skip


async def test_both_doors_want_the_same_rights_for_the_same_verbs(doors: Keyed) -> None:
    methods = {
        method.name.lower(): method.name
        for name in ("Jjq", "Operator", "Keys")
        for method in pb.DESCRIPTOR.services_by_name[name].methods
    }
    for route in all_routes(doors.ring):
        if route.scope and route.name not in HTTP_ALONE:
            method = SAME.get(route.name) or methods[route.name.replace("_", "")]
            assert route.scope == rights_of(method), route.name
        elif route.scope:
            assert route.scope == HTTP_ALONE[route.name]


async def test_every_method_of_grpc(doors: Keyed) -> None:
    services = {pb.DESCRIPTOR.services_by_name[name].full_name: name for name in ("Jjq", "Operator", "Keys")}
    methods = [
        (service, method)
        for service, name in services.items()
        for method in pb.DESCRIPTOR.services_by_name[name].methods
    ]
    for service, method in methods:
        if method.name not in {"DeleteQueue", "RevokeKey"}:
            assert await called(doors, service, method, None) not in REFUSED, "open without keys"
    keys = {"admin": await doors.make("admin")}
    keys |= {scope: await doors.make(scope) for scope in SCOPES}
    wrong: list[str] = []
    for service, method in methods:
        rights, everywhere = (
            rights_of(method.name),
            needs_all(method.name) or method.name in {"GetStatus", "GetTransports"},
        )
        keyless = (None, WRONG, "nonsense", keys["admin"][:-1] + "x")
        answers = [await called(doors, service, method, key) for key in keyless]
        assert set(answers) <= REFUSED, f"{method.name} without a key that is right"
        for scope in SCOPES:
            if method.name == "DeleteQueue" and may(rights, scope, everywhere):
                continue  # the others want the queue
            refused = await called(doors, service, method, keys[scope]) in REFUSED
            if refused == may(rights, scope, everywhere):
                wrong.append(f"{method.name} with {scope}: {'refused' if refused else 'let in'}")
    assert wrong == []


async def asked_over_socket(socket: ClientConnection, number: int, method: Any) -> bool:
    """Whether a call over /v1/ws is refused for want of a right."""
    await socket.send(encode_call(number, method.name, message_for(method)))
    if method.client_streaming:
        await socket.send(head(FrameKind.END, number))
    replies: list[bytes] = []
    while True:
        async with asyncio.timeout(20):
            data = await socket.recv()
        assert isinstance(data, bytes)
        kind, answered = split_frame(data)
        if answered != number:
            continue  # the rest of a stream that was cancelled
        if kind is FrameKind.ERROR:
            return status_pb2.Status.FromString(data[HEAD_BYTES:]).code in {code.value[0] for code in REFUSED}
        if kind is FrameKind.MESSAGE and method.name == "Work":
            replies.append(data[HEAD_BYTES:])
            continue
        await socket.send(head(FrameKind.CANCEL, number))
        return _denied(replies)


async def test_every_method_over_websocket(doors: Keyed) -> None:
    await doors.make("admin")
    methods = list(pb.DESCRIPTOR.services_by_name["Jjq"].methods)
    address, wrong = f"ws://127.0.0.1:{doors.port}/v1/ws", []
    for key in (None, WRONG, "nonsense"):
        shown = {} if key is None else {"Authorization": f"Bearer {key}"}
        with pytest.raises(InvalidStatus, match="401"):
            async with connect(address, additional_headers=shown):
                pass
    for scope in SCOPES:
        shown = {"Authorization": f"Bearer {await doors.make(scope)}"}
        async with connect(address, additional_headers=shown, max_size=None) as socket:
            for number, method in enumerate(methods, 1):
                everywhere = needs_all(method.name) or method.name in {"GetStatus", "GetTransports"}
                allowed = may(rights_of(method.name), scope, everywhere)
                if method.name == "DeleteQueue" and allowed:
                    continue  # the others want the queue
                if await asked_over_socket(socket, number, method) == allowed:
                    wrong.append(f"{method.name} with {scope}: {'refused' if allowed else 'let in'}")
    assert wrong == []


async def test_completing_tasks_needs_the_right_to_push_as_well(doors: Keyed) -> None:
    await doors.make("admin")
    push = pb.PushRequest(queue="other-1", elements=pb.Elements(elements=[pb.Element(value=b"x")]))
    change = pb.ChangeTasksRequest(group=f"{QUEUE}/g", verb=pb.TASK_VERB_ACK)
    raw = pb.CompleteTasksRequest(change=change, pushes=[push]).SerializeToString()
    call = doors.channel.unary_unary("/jjq.v1.Jjq/CompleteTasks")
    for scopes, code in (
        (["work:orders-*"], grpc.StatusCode.PERMISSION_DENIED),
        (["push:other-*"], grpc.StatusCode.PERMISSION_DENIED),
        (["work:orders-*", "push:other-*"], grpc.StatusCode.NOT_FOUND),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(raw, metadata=doors.metadata(await doors.make(*scopes)))
        assert error.value.code() is code, scopes


async def test_a_ledger_is_read_by_those_who_may_read_its_queue(doors: Keyed) -> None:
    await doors.store.create_group(QUEUE, "g", GroupSettings())
    await doors.make("admin")
    raw = pb.ReadRequest(queue=f"{QUEUE}~g").SerializeToString()
    call = doors.channel.unary_stream("/jjq.v1.Jjq/Read")
    assert await call(raw, metadata=doors.metadata(await doors.make("read:orders-*"))).read()
    with pytest.raises(grpc.aio.AioRpcError, match="PERMISSION_DENIED"):
        await call(raw, metadata=doors.metadata(await doors.make("read:other-*"))).read()


async def test_nodes_have_a_key_of_their_own_and_others_cannot_use_their_service(doors: Keyed) -> None:
    admin = await doors.make("admin")
    ask = doors.channel.unary_unary("/jjq.v1.PeerOperator/ListNodes")
    for key in (None, WRONG, admin):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(b"", metadata=doors.metadata(key))
        assert refused.value.code() in REFUSED
    await ask(b"", metadata=doors.metadata(doors.ring.peer))


async def test_health_is_open_and_reflection_is_not(doors: Keyed) -> None:
    await doors.make("admin")
    await doors.channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
    listed = doors.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")()
    assert await listed.code() in REFUSED


async def test_every_route_of_http(doors: Keyed) -> None:
    routes = [route for route in all_routes(doors.ring) if route.scope]
    keys = {"admin": await doors.make("admin")}
    keys |= {scope: await doors.make(scope) for scope in SCOPES}
    wrong: list[str] = []

    async def ask(route: Any, key: str | None) -> int:
        body = json.dumps({"name": QUEUE}) if route.queue == LATER and route.method == "POST" else None
        path = f"{route.path}?queue={QUEUE}" if route.queue == LATER and body is None else route.path
        path = path.format(
            queue=QUEUE, subscriber="s", key="0", node="n", group="g", task="0", message="1",
            offset="0", sha256="0", upload="0",
        )  # fmt: skip
        shown = {} if key is None else {"Authorization": f"Bearer {key}"}
        shown |= {} if body is None else {"Content_Type": "application/json"}
        return (await doors.ask(route.method, path, body, **shown)).status

    for route in routes:
        if route.name in {"delete_queue", "delete_subscriber"}:
            tried = [scope for scope in SCOPES if not may(route.scope, scope, not route.queue)]
        else:
            tried = (
                SCOPES[:2] if route.name == "live" else SCOPES
            )  # which any key may ask, and takes a second
        assert [await ask(route, key) for key in (None, WRONG)] == [401, 401], route.name
        for scope in tried:
            refused = await ask(route, keys[scope]) in {401, 403}
            if refused == may(route.scope, scope, not route.queue):
                wrong.append(f"{route.name} with {scope}: {'refused' if refused else 'let in'}")
    assert wrong == []
    for path in ("/healthz", "/readyz", "/docs", "/", "/console/app.js"):
        assert (await doors.ask("GET", path)).status == 200


async def test_live_figures_tell_of_queues_that_a_key_may_read_and_of_no_others(doors: Keyed) -> None:
    await doors.make("admin")
    shown = {"Authorization": f"Bearer {await doors.make('read:orders-*')}"}
    told = await doors.ask("GET", f"/v1/live?details={QUEUE}", **shown)
    assert [queue["name"] for queue in told.json["queues"]] == [QUEUE]
    for query in ("queues=other-1", f"queues={QUEUE}&details=other-1"):
        assert (await doors.ask("GET", f"/v1/live?{query}", **shown)).status == 403
    pushing = {"Authorization": f"Bearer {await doors.make('push:orders-*')}"}
    assert (await doors.ask("GET", f"/v1/live?queues={QUEUE}", **pushing)).status == 403
