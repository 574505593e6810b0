"""REST as a door: the messages of gRPC become requests of /v1, and what it answers becomes messages."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from jjq.v1 import jjq_pb2 as pb
from tests.faults.clients.doors import CallFailed, Door

# Codes of problems after which nothing was written, for certain.
_CERTAIN = {
    "INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND", "CONFLICT", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "DATA_LOSS",
}  # fmt: skip
_STAGES = {pb.STAGE_SYNCED: "synced", pb.STAGE_READY: "ready"}

Asked = tuple[str, str, Any, dict[str, str]]  # method, path, document, headers


class HttpDoor(Door):
    """One connection, which is kept."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, request: Any, seconds: float) -> Any:
        translate, understand = _VERBS[method]
        sent = False
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._open()
                sent = True
                writer.write(self._encode(*translate(request)))
                status, headers, body = await _response(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self._close()
            raise CallFailed("info" if sent else "fail", "BROKEN", repr(error), away=True) from error
        if headers.get("connection") == "close":
            self._close()
        try:
            said = orjson.loads(body)
        except orjson.JSONDecodeError as error:  # the outcome is as unknown as without an answer
            raise CallFailed("info", "NO_JSON", f"{status} {body[:150]!r}", away=True) from error
        if status >= 300:
            code = said["code"]
            raise CallFailed("fail" if code in _CERTAIN else "info", code, said["detail"], away=status == 503)
        return understand(said)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            host, _, port = self._address.rpartition(":")
            self._streams = await asyncio.open_connection(host, int(port), limit=2**20)
        return self._streams

    def _close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].transport.abort()

    def _encode(self, method: str, path: str, document: Any, headers: dict[str, str]) -> bytes:
        body = b"" if document is None else orjson.dumps(document)
        named = {
            "Host": self._address,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
    return int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def _elements(elements: Any) -> dict[str, Any]:
    return {
        "elements": [
            {"value": each.value.decode(), **({"key": each.key.decode()} if each.HasField("key") else {})}
            for each in elements.elements
        ]
    }


def _push(request: pb.PushRequest) -> Asked:
    headers = {}
    if request.HasField("producer"):
        headers = {"Jjq-Producer": request.producer, "Jjq-Sequence": str(request.sequence)}
    return "POST", f"/v1/queues/{request.queue}/elements", _elements(request.elements), headers


def _subscriber(id: str, verb: str) -> str:
    queue, _, name = id.partition("/")
    return f"/v1/queues/{queue}/subscribers/{name}/{verb}"


def _group(id: str, verb: str) -> str:
    queue, _, name = id.partition("/")
    return f"/v1/queues/{queue}/groups/{name}/{verb}"


def _pop(request: pb.PopRequest) -> Asked:
    document: dict[str, Any] = {"max": request.max, "wait_seconds": request.wait_seconds}
    if request.HasField("position"):
        document["position"] = request.position
    return "POST", _subscriber(request.subscriber, "pop"), document, {}


def _peek(request: pb.PeekRequest) -> Asked:
    return "GET", f"{_subscriber(request.subscriber, 'peek')}?max={request.max}", None, {}


def _seek(request: pb.SeekRequest) -> Asked:
    return (
        "POST",
        _subscriber(request.subscriber, "seek"),
        {"start": request.start, "clamp": request.clamp},
        {},
    )


def _take(request: pb.TakeRequest) -> Asked:
    document = {
        "max": request.max,
        "wait_seconds": request.wait_seconds,
        "session": request.session,
        "stage": _STAGES[request.stage],
    }
    return "POST", _group(request.group, "take"), document, {}


def _tasks(request: pb.ChangeTasksRequest) -> list[dict[str, int]]:
    if not request.attempts:
        return [{"id": id} for id in request.ids]
    return [{"id": id, "attempt": attempt} for id, attempt in zip(request.ids, request.attempts, strict=True)]


def _change(request: pb.ChangeTasksRequest) -> Asked:
    verb = pb.TaskVerb.Name(request.verb).removeprefix("TASK_VERB_").lower()
    document: dict[str, Any] = {"tasks": _tasks(request)}
    if verb != "kick":
        document["session"] = request.session
    for name in ("delay", "seconds"):
        if request.HasField(name):
            document[name] = getattr(request, name)
    return "POST", _group(request.group, verb), document, {}


def _complete(request: pb.CompleteTasksRequest) -> Asked:
    change = request.change
    pushes = [{"queue": push.queue, **_elements(push.elements)} for push in request.pushes]
    document = {"tasks": _tasks(change), "pushes": pushes, "session": change.session}
    return "POST", _group(change.group, "complete"), document, {}


def _element(said: dict[str, Any]) -> pb.Element:
    return pb.Element(offset=said["offset"], value=said["value"].encode())


def _popped(said: dict[str, Any]) -> pb.PopResponse:
    found = pb.Elements(elements=map(_element, said["elements"]))
    return pb.PopResponse(position=said["position"], next=said["next"], elements=found)


def _taken(said: dict[str, Any]) -> pb.TakeResponse:
    tasks = said["tasks"]
    found = pb.Elements(elements=[_element(task["element"]) for task in tasks])
    return pb.TakeResponse(attempts=[task["attempt"] for task in tasks], elements=found)


def _changed(said: dict[str, Any]) -> pb.ChangeTasksResponse:
    errors = [pb.TaskError(id=error["id"], message=error["message"]) for error in said["errors"]]
    return pb.ChangeTasksResponse(changed=said["changed"], errors=errors)


def _receipt(said: dict[str, Any]) -> pb.Receipt:
    return pb.Receipt(first_offset=said["first_offset"], count=said["count"])


_VERBS: dict[str, tuple[Any, Any]] = {
    "Push": (_push, lambda said: pb.PushResponse(receipt=_receipt(said))),
    "Pop": (_pop, _popped),
    "Peek": (_peek, _popped),
    "Seek": (_seek, lambda said: pb.SeekResponse(subscriber=pb.Subscriber(offset=said["offset"]))),
    "Take": (_take, _taken),
    "ChangeTasks": (_change, _changed),
    "CompleteTasks": (
        _complete,
        lambda said: pb.CompleteTasksResponse(
            outcomes=_changed(said["outcomes"]), receipts=map(_receipt, said["receipts"])
        ),
    ),
}
