"""Routes of worker groups; those of their tasks are in tasks.py."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coldstore.shared.errors import NotFound
from hotstore.groups.port import WorkStore
from hotstore.groups.values import GroupInfo, GroupSettings, RetryBackoff
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1.documents import Name, Sent
from jjq.http.v1.queues import PAGE, queue_of, requested_page

GROUP: Final = "/v1/queues/{queue}/groups/{group}"
_GROUPS: Final = "/v1/queues/{queue}/groups"

# What is sent --------------------------------------------------------------------------------------------


class BackoffDocument(Struct, forbid_unknown_fields=True):
    base: float = 1.0
    factor: float = 2.0
    max: float = 300.0
    jitter: float = 0.1


class GroupSettingsDocument(Struct, forbid_unknown_fields=True):
    driver: str = "fifo"
    ttr: float = 60.0
    ttl: float | None = None
    delay: float = 0.0
    priority: int = 0
    max_attempts: int | None = None
    on_exhausted: Literal["bury", "drop"] = "bury"
    backoff: BackoffDocument = msgspec.field(default_factory=BackoffDocument)
    capacity: int | None = None
    per_key: int | None = None
    rate: float | None = None


class NewGroup(Sent):
    name: Name
    start: str = "beginning"
    settings: GroupSettingsDocument = msgspec.field(default_factory=GroupSettingsDocument)


class GroupUpdate(Sent):
    """Settings that are not given stay."""

    ttr: float | UnsetType = UNSET
    ttl: float | UnsetType | None = UNSET
    delay: float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    on_exhausted: Literal["bury", "drop"] | UnsetType = UNSET
    backoff: BackoffDocument | UnsetType = UNSET
    capacity: int | UnsetType | None = UNSET
    per_key: int | UnsetType | None = UNSET
    rate: float | UnsetType | None = UNSET


class GroupSeekOrder(Sent):
    start: str
    clamp: bool = False
    dry_run: bool = False


# What is answered ----------------------------------------------------------------------------------------


class GroupDocument(Struct):
    id: str
    name: str
    queue: str
    settings: GroupSettingsDocument
    start: str
    first: int
    created: datetime
    paused: bool
    waiting: int
    tasks: dict[str, int]


class GroupPage(Struct):
    groups: list[GroupDocument]
    next_page_token: str = ""


class StatisticsDocument(Struct):
    tasks: dict[str, int]
    calls: dict[str, int]
    oldest_ready_seconds: float
    oldest_taken_seconds: float
    rates: dict[str, float]


# Groups --------------------------------------------------------------------------------------------------


def work_of(request: Request) -> WorkStore:
    store = request.backend.store
    if not hasattr(store, "take"):
        raise NotFound("this store has no worker groups")
    return cast("WorkStore", store)


def group_id(request: Request) -> str:
    return f"{queue_of(request)}/{request.params['group']}"


def _settings(sent: GroupSettingsDocument) -> GroupSettings:
    return GroupSettings(**{**msgspec.structs.asdict(sent), "backoff": _backoff(sent.backoff)})


def _backoff(sent: BackoffDocument) -> RetryBackoff:
    return RetryBackoff(**msgspec.structs.asdict(sent))


def _group(info: GroupInfo) -> Reply:
    return document(_shown(info))


def _shown(info: GroupInfo) -> GroupDocument:
    settings = msgspec.convert(msgspec.to_builtins(info.settings), GroupSettingsDocument)
    return GroupDocument(
        info.id, info.name, info.queue, settings, info.start, info.first, info.created, info.paused, info.waiting,
        dict(info.tasks),
    )  # fmt: skip


async def _list(request: Request) -> Reply:
    queue = queue_of(request) if "queue" in request.params else ""
    page = requested_page(request, f"groups {queue}")
    found = await work_of(request).list_groups(queue or None, after=page.place, limit=page.limit)
    groups, token = page.cut(found, lambda group: group.id)
    return document(GroupPage([_shown(group) for group in groups], token))


async def _create(request: Request) -> Reply:
    wanted = await request.decode(NewGroup)
    made = await work_of(request).create_group(
        queue_of(request), wanted.name, _settings(wanted.settings), start=wanted.start
    )
    return document(
        _shown(made), 201, [(b"location", f"/v1/queues/{made.queue}/groups/{made.name}".encode())]
    )


async def _get(request: Request) -> Reply:
    request.query()
    return _group(await work_of(request).get_group(group_id(request)))


async def _update(request: Request) -> Reply:
    wanted = await request.decode(GroupUpdate)
    changes = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not UNSET}
    if isinstance(wanted.backoff, BackoffDocument):
        changes["backoff"] = _backoff(wanted.backoff)
    return _group(await work_of(request).update_group(group_id(request), changes))


async def _delete(request: Request) -> Reply:
    request.query("force")
    await work_of(request).delete_group(group_id(request), force=request.flag("force"))
    return BytesReply(b"", status=204)


async def _pause(request: Request) -> Reply:
    return _group(await work_of(request).pause_group(group_id(request)))


async def _resume(request: Request) -> Reply:
    return _group(await work_of(request).pause_group(group_id(request), paused=False))


async def _seek(request: Request) -> Reply:
    wanted = await request.decode(GroupSeekOrder)
    found = await work_of(request).seek_group(
        group_id(request), wanted.start, clamp=wanted.clamp, dry_run=wanted.dry_run
    )
    return _group(found)


async def _statistics(request: Request) -> Reply:
    request.query()
    found = await work_of(request).group_statistics(group_id(request))
    return document(
        StatisticsDocument(
            dict(found.tasks),
            dict(found.calls),
            found.oldest_ready_seconds,
            found.oldest_taken_seconds,
            dict(found.rates),
        )
    )


ROUTES = (
    HttpRoute(
        "GET", "/v1/groups", _list, "list_all_groups", "All worker groups, by queue and name", "work|read",
        reply=GroupPage, parameters=PAGE,
    ),
    HttpRoute(
        "GET", _GROUPS, _list, "list_groups", "The worker groups of a queue", "work|read", "queue",
        reply=GroupPage, parameters=PAGE,
    ),
    HttpRoute(
        "POST", _GROUPS, _create, "create_group", "Create a worker group: every element from its start on is a task",
        queue="queue", body=NewGroup, reply=GroupDocument, status=201,
    ),
    HttpRoute("GET", GROUP, _get, "get_group", "A worker group", "work|read", "queue", reply=GroupDocument),
    HttpRoute(
        "PATCH", GROUP, _update, "update_group", "Change settings of a group", queue="queue", body=GroupUpdate,
        reply=GroupDocument,
    ),
    HttpRoute(
        "DELETE", GROUP, _delete, "delete_group", "Delete a group; its ledger stays", queue="queue", status=204,
        parameters=(Parameter("force", "also while tasks are taken", "boolean"),),
    ),
    HttpRoute("POST", f"{GROUP}/pause", _pause, "pause_group", "Hand out no tasks", queue="queue",
              reply=GroupDocument),
    HttpRoute("POST", f"{GROUP}/resume", _resume, "resume_group", "Hand out tasks again", queue="queue",
              reply=GroupDocument),
    HttpRoute(
        "POST", f"{GROUP}/seek", _seek, "seek_group", "Begin anew at a starting point", queue="queue",
        body=GroupSeekOrder, reply=GroupDocument,
    ),
    HttpRoute(
        "GET", f"{GROUP}/statistics", _statistics, "group_statistics", "Tasks by state, calls by verb, ages",
        "work|read", "queue", reply=StatisticsDocument,
    ),
)  # fmt: skip
