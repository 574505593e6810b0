"""The settings of a group: what is allowed, and how they are kept in the ledger.

Times are checked here once, so that the engine may count in microseconds without a second look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Final, NamedTuple

import orjson

from coldstore.shared.errors import InvalidInput
from hotstore.groups.drivers import DriverKind, find_driver
from hotstore.groups.options import check_priority, check_seconds
from hotstore.groups.values import GroupSettings, RetryBackoff
from hotstore.limits import ATTEMPTS_MAX, CAPACITY_MAX, PER_KEY_MAX, RATE_MAX

_NAMES: Final = frozenset(field.name for field in fields(GroupSettings))
_NEEDS: Final = {"ttl": "ttl", "delay": "delay", "priority": "priority", "capacity": "capacity", "per_key": "key",
                 "rate": "key"}  # fmt: skip


def check_group_settings(settings: GroupSettings) -> GroupSettings:
    """Return `settings` if a group may have them, else raise `InvalidInput` that says what to do."""
    kind = find_driver(settings.driver)
    check_seconds("ttr", settings.ttr, least=0.001)
    if settings.ttl is not None:
        check_seconds("ttl", settings.ttl, least=0.001)
    check_seconds("delay", settings.delay)
    check_priority(settings.priority)
    _check_whole("max_attempts", settings.max_attempts, ATTEMPTS_MAX)
    _check_whole("capacity", settings.capacity, CAPACITY_MAX)
    _check_whole("per_key", settings.per_key, PER_KEY_MAX)
    if settings.on_exhausted not in ("bury", "drop"):
        raise InvalidInput(f"on_exhausted is {settings.on_exhausted!r:.40}: use bury or drop")
    rate = settings.rate
    if rate is not None and not (_is_number(rate) and 0 < rate <= RATE_MAX):
        raise InvalidInput(
            f"rate is {rate!r:.40}: use a number of takes per second above 0, at most {RATE_MAX:g}"
        )
    _check_backoff(settings.backoff)
    _check_driver(settings, kind)
    return settings


def _check_backoff(backoff: RetryBackoff) -> None:
    if not isinstance(backoff, RetryBackoff):
        raise InvalidInput(f"backoff is {backoff!r:.60}: give base, factor, max and jitter")
    check_seconds("backoff.base", backoff.base)
    check_seconds("backoff.max", backoff.max)
    if not (_is_number(backoff.factor) and 1 <= backoff.factor <= 1_000):
        raise InvalidInput(f"backoff.factor is {backoff.factor!r:.40}: use a number from 1 to 1000")
    if not (_is_number(backoff.jitter) and 0 <= backoff.jitter <= 1):
        raise InvalidInput(f"backoff.jitter is {backoff.jitter!r:.40}: use a share from 0 to 1")


def _check_driver(settings: GroupSettings, kind: DriverKind) -> None:
    """Refuse what the driver would ignore."""
    default = GroupSettings()
    for name, need in _NEEDS.items():
        if getattr(settings, name) != getattr(default, name) and need not in kind.uses:
            raise InvalidInput(
                f"driver {kind.name} does not use {name}: leave it out, or choose a driver that does ({_which(need)})"
            )


def _which(need: str) -> str:
    words = {"capacity": "limfifottl", "key": "utube or utubettl"}
    return words.get(need, "fifottl, limfifottl, arrival or utubettl")


def _check_whole(name: str, number: Any, most: int) -> None:
    if number is not None and (type(number) is not int or not 1 <= number <= most):
        raise InvalidInput(f"{name} is {number!r:.40}: use a whole number from 1 to {most}, or leave it out")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def change_settings(settings: GroupSettings, changes: Mapping[str, Any]) -> GroupSettings:
    """The settings after an update."""
    unknown = sorted(set(changes) - _NAMES)
    if unknown:
        raise InvalidInput(
            f"a group has no setting {', '.join(unknown)}: there are {', '.join(sorted(_NAMES))}"
        )
    if not changes:
        raise InvalidInput("nothing to change: give at least one setting")
    if changes.get("driver", settings.driver) != settings.driver:
        raise InvalidInput(
            f"the driver of a group stays {settings.driver}: create another group over the same queue"
        )
    return check_group_settings(replace(settings, **changes))


class Definition(NamedTuple):
    """What a group is: its settings, where it starts, and the id of its queue, whose name another may have later."""

    settings: GroupSettings
    start: str
    queue: str


def definition_text(definition: Definition) -> str:
    """As the ledger keeps it."""
    fields = {"settings": asdict(definition.settings), "start": definition.start, "queue": definition.queue}
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


def read_definition(text: str) -> Definition:
    """What `definition_text` wrote; fields of later versions are left out."""
    found = orjson.loads(text)
    known = {name: value for name, value in found["settings"].items() if name in _NAMES}
    known["backoff"] = RetryBackoff(**known["backoff"])
    return Definition(GroupSettings(**known), found["start"], found["queue"])
