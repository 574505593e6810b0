"""Groups, their settings and statistics, and tasks that are looked at: values to messages, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from coldstore.shared.errors import InvalidInput, check
from coldstore.shared.results import Resolved
from hotstore.groups.values import (
    TASK_STATES,
    TASK_VERBS,
    GroupInfo,
    GroupSettings,
    GroupStatistics,
    OnExhausted,
    RetryBackoff,
    TaskInfo,
    TaskState,
    TaskVerb,
)
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.enums import WireEnum
from jjq.wire.request import make_message

STATE: Final = WireEnum[TaskState](
    "state",
    {
        pb.TASK_STATE_READY: "ready",
        pb.TASK_STATE_TAKEN: "taken",
        pb.TASK_STATE_DELAYED: "delayed",
        pb.TASK_STATE_BURIED: "buried",
        pb.TASK_STATE_DONE: "done",
    },
    None,
)
VERB: Final = WireEnum[TaskVerb](
    "verb",
    {
        pb.TASK_VERB_ACK: "ack",
        pb.TASK_VERB_NACK: "nack",
        pb.TASK_VERB_RELEASE: "release",
        pb.TASK_VERB_TOUCH: "touch",
        pb.TASK_VERB_BURY: "bury",
        pb.TASK_VERB_KICK: "kick",
        pb.TASK_VERB_DELETE: "delete",
    },
    None,
)
ON_EXHAUSTED: Final = WireEnum[OnExhausted](
    "on_exhausted", {pb.ON_EXHAUSTED_BURY: "bury", pb.ON_EXHAUSTED_DROP: "drop"}, "bury"
)
check(STATE.words() == set(TASK_STATES), "every state has a number")
check(VERB.words() == set(TASK_VERBS), "every verb has a number")

CLEARABLE: Final = ("ttl", "max_attempts", "capacity", "per_key", "rate")  # settings that may be absent
_PLAIN: Final = ("driver", "ttr", "ttl", "delay", "priority", "max_attempts", "capacity", "per_key", "rate")
_BACKOFF: Final = ("base", "factor", "max", "jitter")
_GROUP: Final = ("id", "name", "queue", "start", "first", "created_us", "paused", "waiting")
_RESOLVED: Final = ("offset", "timestamp_us", "first_offset", "next_offset", "rule")
_STATES: Final = (*TASK_STATES, "total")
_TASK: Final = ("id", "attempt", "priority", "session", "worker", "created_us", "reason")


def finite(name: str, value: float) -> float:
    """A number of seconds that came over the wire; the store says whether it is in range."""
    if not math.isfinite(value):
        raise InvalidInput(f"{name} is {value}: give a finite number")
    return value


def given(message: Any, name: str) -> Any:
    """The value of an optional field, None if it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def _in_order(counts: Mapping[str, int], order: Iterable[str]) -> dict[str, int]:
    """Counts by name; a map of protobuf has no order."""
    known = {name: counts[name] for name in order if name in counts}
    return known | {name: count for name, count in counts.items() if name not in known}


# Settings -----------------------------------------------------------------------------------------


def settings_out(settings: GroupSettings) -> pb.GroupSettings:
    return _settings(
        {name: getattr(settings, name) for name in (*_PLAIN, "on_exhausted", "backoff")},
    )


def _settings(fields: Mapping[str, Any]) -> pb.GroupSettings:
    plain = dict(fields)
    on_exhausted, backoff = plain.pop("on_exhausted", None), plain.pop("backoff", None)
    message = make_message(pb.GroupSettings, **plain)
    if on_exhausted is not None:
        message.on_exhausted = cast("pb.OnExhausted", ON_EXHAUSTED.number(on_exhausted))
    if backoff is not None:
        message.backoff.CopyFrom(
            make_message(pb.RetryBackoff, **{name: getattr(backoff, name) for name in _BACKOFF})
        )
    return message


def settings_in(message: pb.GroupSettings) -> GroupSettings:
    """All settings; what is absent is a default."""
    return GroupSettings(**_changes(message))


def _changes(message: pb.GroupSettings) -> dict[str, Any]:
    found = {name: getattr(message, name) for name in _PLAIN if message.HasField(cast("Any", name))}
    for name, value in found.items():
        if isinstance(value, float):
            finite(name, value)
    if message.on_exhausted:
        found["on_exhausted"] = ON_EXHAUSTED.word(message.on_exhausted)
    if message.HasField("backoff"):
        parts = {name: finite(f"backoff.{name}", getattr(message.backoff, name)) for name in _BACKOFF}
        found["backoff"] = RetryBackoff(**parts)
    return found


def update_out(group: str, changes: Mapping[str, Any]) -> pb.UpdateGroupRequest:
    """A request to change these settings; None takes one away."""
    cleared = [name for name, value in changes.items() if value is None]
    for name in cleared:
        _check_clearable(name)
    settings = _settings({name: value for name, value in changes.items() if value is not None})
    return make_message(pb.UpdateGroupRequest, group=group, settings=settings, cleared=cleared)


def update_in(message: pb.UpdateGroupRequest) -> dict[str, Any]:
    """The settings that a request changes, by name."""
    changes = _changes(message.settings)
    for name in message.cleared:
        _check_clearable(name)
        if name in changes:
            raise InvalidInput(f"{name} is both set and cleared: choose one")
        changes[name] = None
    return changes


def _check_clearable(name: str) -> None:
    if name not in CLEARABLE:
        raise InvalidInput(f"{name[:60]!r} cannot be cleared; these can: {', '.join(CLEARABLE)}")


# Groups -------------------------------------------------------------------------------------------


def group_out(info: GroupInfo) -> pb.Group:
    message = pb.Group(
        settings=settings_out(info.settings),
        tasks=dict(info.tasks),
        **{name: getattr(info, name) for name in _GROUP},
    )
    if info.resolved is not None:
        resolved: dict[str, Any] = {name: getattr(info.resolved, name) for name in _RESOLVED}
        message.resolved.CopyFrom(pb.Resolved(**resolved))
    return message


def group_in(message: pb.Group) -> GroupInfo:
    resolved = None
    if message.HasField("resolved"):
        known = {name: getattr(message.resolved, name) for name in _RESOLVED}
        resolved = Resolved(**(known | {"timestamp_us": given(message.resolved, "timestamp_us")}))
    return GroupInfo(
        settings=settings_in(message.settings),
        tasks=_in_order(message.tasks, _STATES),
        resolved=resolved,
        **{name: getattr(message, name) for name in _GROUP},
    )


def statistics_out(found: GroupStatistics) -> pb.GetGroupStatisticsResponse:
    return pb.GetGroupStatisticsResponse(
        tasks=dict(found.tasks),
        calls=dict(found.calls),
        oldest_ready_seconds=found.oldest_ready_seconds,
        oldest_taken_seconds=found.oldest_taken_seconds,
        rates=dict(found.rates),
    )


def statistics_in(message: pb.GetGroupStatisticsResponse) -> GroupStatistics:
    return GroupStatistics(
        _in_order(message.tasks, _STATES),
        _in_order(message.calls, sorted(message.calls)),
        message.oldest_ready_seconds,
        message.oldest_taken_seconds,
        {verb: message.rates[verb] for verb in sorted(message.rates)},
    )


# Tasks --------------------------------------------------------------------------------------------


def task_out(info: TaskInfo) -> pb.Task:
    text = isinstance(info.value, str)
    message = pb.Task(
        state=cast("pb.TaskState", STATE.number(info.state)),
        value=cast("str", info.value).encode() if text else cast("bytes", info.value),
        text=text,
        headers=dict(info.headers),
        **{name: getattr(info, name) for name in _TASK},
    )
    if info.key is not None:
        message.key = info.key
    if info.until_us is not None:
        message.until_us = info.until_us
    return message


def task_in(message: pb.Task) -> TaskInfo:
    return TaskInfo(
        state=STATE.word(message.state),
        key=given(message, "key"),
        value=message.value.decode() if message.text else message.value,
        headers=dict(message.headers),
        until_us=given(message, "until_us"),
        **{name: getattr(message, name) for name in _TASK},
    )
