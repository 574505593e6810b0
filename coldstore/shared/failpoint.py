"""Named points at which a test may kill the process or raise an error.

`reach("block.data_put")` costs one look-up in an empty dictionary unless a point is armed. The environment
arms real processes, `JJQ_FAILPOINTS="name:nth:action,…"` with the actions `kill` (SIGKILL to ourselves) and
`raise`; tests in one process call `arm`. Every name is listed below, so that a test can go through all of
them and a misspelt one is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from coldstore.shared.errors import InvalidInput, Unavailable, check

NAMES: tuple[str, ...] = (
    # coldstore, in the order of a block's life
    "block.data_put",
    "block.metadata_put",
    "rollup.put",
    "merge.data_put",
    "merge.metadata_put",
    "sweep.metadata_deleted",
    "sweep.data_deleted",
    # hotstore, in the order of an element's life
    "journal.segment_created",
    "journal.written",
    "journal.synced",
    "journal.rolled",
    "journal.trimmed",
    "seal.started",
    "seal.stored",
    "seal.switched",
    "checkpoint.begun",
    "checkpoint.written",
    "checkpoint.made",
    "checkpoint.synced",
    "checkpoint.renamed",
    "checkpoint.kept",
    "checkpoint.older_removed",
    "recovery.scanned",
    "recovery.copied",
    "recovery.switched",
)

# Points of a node in a cluster (sharding): its journal on object storage, a takeover, a move, in order.
SHARDING_NAMES: tuple[str, ...] = (
    "journal.boundary",
    "tenure.ended",
    "takeover.fenced",
    "takeover.replayed",
    "move.intended",
    "move.sealed",
    "move.state_put",
    "move.swapped",
    "move.left",
    "move.adopted",
)

# Of a queue that is deleted, in order; coldstore/queue/deletion.py and hotstore/lifecycle/administration.py.
DELETION_NAMES: tuple[str, ...] = (
    "delete.retired",
    "delete.noted",
    "delete.marked",
    "delete.left",
    "purge.begun",
    "purge.file_deleted",
    "purge.done",
)

# Of a large object, in order: coldstore/large/upload.py, coldstore/large/notes.py, hotstore/large/desk.py.
OBJECT_NAMES: tuple[str, ...] = (
    "object.noted",
    "object.part_put",
    "object.complete",
    "object.completed",
    "object.checked",
    "object.pushed",
    "object.swept",
)

# Points of an import (coldstore/queue/bulk_import.py), in order. A server never reaches them.
IMPORT_NAMES: tuple[str, ...] = (
    "import.begun",
    "import.staged",
    "import.data_put",
    "import.metadata_put",
    "import.rolled_up",
    "import.shown",
)

# Points of a change of a text queue (jjq/textqueue/file.py). They need no server.
TEXT_NAMES: tuple[str, ...] = ("text.intended", "text.written", "text.variable")

_ALL: tuple[str, ...] = (*NAMES, *SHARDING_NAMES, *DELETION_NAMES, *OBJECT_NAMES, *IMPORT_NAMES, *TEXT_NAMES)

_armed: dict[str, tuple[int, Callable[[str], None]]] = {}


def _kill(name: str) -> None:
    import signal  # half a millisecond of every start, for tests alone

    os.kill(os.getpid(), signal.SIGKILL)


def _raise(name: str) -> None:
    raise Unavailable(f"fail point {name} was armed to raise; disarm it")


ACTIONS: Mapping[str, Callable[[str], None]] = {"kill": _kill, "raise": _raise}


def arm(name: str, nth: int = 1, action: str | Callable[[str], None] = "raise") -> None:
    """Let the `nth` time that `name` is reached run `action`, once."""
    if name not in _ALL or nth < 1:
        raise InvalidInput(
            f"no fail point {name!r} at {nth}; the names are {', '.join(NAMES)}, counted from 1"
        )
    if isinstance(action, str):
        if action not in ACTIONS:
            raise InvalidInput(f"no fail point action {action!r}; use one of {', '.join(ACTIONS)}")
        action = ACTIONS[action]
    _armed[name] = (nth, action)


def arm_from(environment: Mapping[str, str]) -> None:
    """Arm what `JJQ_FAILPOINTS` names; called once by the composition root, never at import."""
    for item in filter(None, environment.get("JJQ_FAILPOINTS", "").split(",")):
        parts = item.split(":")
        if len(parts) != 3 or not parts[1].isdigit():
            raise InvalidInput(f"JJQ_FAILPOINTS has {item!r}; write name:nth:action")
        arm(parts[0], int(parts[1]), parts[2])


def disarm() -> None:
    """Forget everything armed."""
    _armed.clear()


def armed() -> dict[str, int]:
    """The armed points, and how many times each must still be reached before it acts."""
    return {name: nth for name, (nth, _) in _armed.items()}


def reach(name: str) -> None:
    """Execution is at `name`: run the action that was armed there, if any."""
    if not _armed:
        return
    check(name in _ALL, f"unregistered fail point {name}")
    if name in _armed:
        nth, action = _armed[name]
        if nth > 1:
            _armed[name] = (nth - 1, action)
            return
        del _armed[name]
        action(name)
