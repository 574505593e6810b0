"""What a take must be like, and what is said to one whose session has ended."""

from __future__ import annotations

import math
from typing import Final

from coldstore.shared.errors import Conflict, InvalidInput
from coldstore.shared.limits import NAME_CHARS_MAX
from hotstore.groups.changes import is_text
from hotstore.groups.drivers import KEY, DriverKind
from hotstore.groups.options import check_seconds
from hotstore.groups.values import Take
from hotstore.limits import TAKE_TASKS_MAX
from hotstore.work.sessions import check_session

STAGES: Final = ("ready", "written", "synced")


def session_ended(take: Take) -> Conflict:
    """Of a take that its session did not live to see."""
    return Conflict(f"session {take.session!r:.60} has ended: take as a session that is attached")


def check_take(take: Take, kind: DriverKind) -> frozenset[bytes] | None:
    """The keys that are asked for."""
    if type(take.max) is not int or not 1 <= take.max <= TAKE_TASKS_MAX:
        raise InvalidInput(f"max is {take.max!r:.40}: use a whole number from 1 to {TAKE_TASKS_MAX}")
    wait = take.wait
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not math.isfinite(wait) or wait < 0:
        raise InvalidInput(f"wait must be a number of seconds from 0 on, not {wait!r:.60}")
    if take.ttr is not None:
        check_seconds("ttr", take.ttr, least=0.001)
    if take.stage not in STAGES:
        raise InvalidInput(f"stage {take.stage!r:.40} is not known: use one of {', '.join(STAGES)}")
    check_session(take.session)
    if take.worker != "" and (not is_text(take.worker) or len(take.worker.encode()) > NAME_CHARS_MAX):
        raise InvalidInput(f"worker must be text of at most {NAME_CHARS_MAX} bytes, not {take.worker!a:.60}")
    if take.keys is None:
        return None
    if KEY not in kind.uses:
        raise InvalidInput(
            f"driver {kind.name} does not know keys: take without keys, or create a group with utube"
        )
    if not all(isinstance(key, bytes) for key in take.keys):
        raise InvalidInput("keys are bytes")
    return frozenset(take.keys)
