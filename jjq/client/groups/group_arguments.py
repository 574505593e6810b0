"""What callers give to the verbs of worker groups, checked as jjq/arguments.py does for all verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coldstore.shared.errors import InvalidInput
from hotstore.groups.values import GroupInfo, OnExhausted, RetryBackoff
from jjq import arguments
from jjq.arguments import number, text

Group = GroupInfo | str
Backoff = RetryBackoff | tuple[float, ...] | list[float]
TaskKeys = Iterable[bytes | str]


def group_id(given: object) -> str:
    """A group by its id, or as `create_group` returned it."""
    return given.id if isinstance(given, GroupInfo) else arguments.group_id(given)


def on_exhausted_word(given: object) -> OnExhausted:
    if given not in ("bury", "drop"):
        raise InvalidInput(f"on_exhausted is {given!r:.40}: give 'bury' or 'drop'")
    return given


def backoff_of(given: object) -> RetryBackoff:
    if isinstance(given, RetryBackoff):
        return given
    if not isinstance(given, tuple | list) or not 1 <= len(given) <= 4:
        raise InvalidInput(
            f"backoff is {given!r:.40}: give (base, factor, max, jitter), the last ones are optional"
        )
    return RetryBackoff(*(number("backoff", part) for part in given))


def keys_of(given: object) -> list[bytes]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"keys is {given!r:.40}: give a list of keys")
    keys: list[bytes] = []
    for each in given:
        if not isinstance(each, str | bytes):
            raise InvalidInput(f"keys has {each!r:.40}: a key is bytes or str")
        keys.append(arguments.utf8("keys", each) if isinstance(each, str) else each)
    if not keys:
        raise InvalidInput("keys is empty: give at least one, or None for tasks of any key")
    return keys


def optional_seconds(name: str, given: object) -> float | None:
    return None if given is None else number(name, given)


def optional_reason(reason: object) -> str | None:
    return None if reason is None else text("reason", reason)


def if_given(check: Any, name: str, given: object, *, optional: bool = False) -> Any:
    """A setting to change; `...`: not given."""
    return given if given is ... or (optional and given is None) else check(name, given)
