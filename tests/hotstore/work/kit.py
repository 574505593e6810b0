"""Groups under test: short forms of the verbs, and options of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coldstore.shared.batch import payload
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from hotstore.groups.values import (
    TASK_OPTIONS,
    GroupInfo,
    GroupSettings,
    Take,
    TaskChange,
    TaskOutcomes,
    TaskVerb,
)
from hotstore.store import HotStore

Receipts = list[tuple[int, int]]  # task and attempt


async def create(store: HotStore, group: str = "q/g", start: str = "beginning", **settings: Any) -> GroupInfo:
    queue, name = group.split("/")
    return await store.create_group(queue, name, GroupSettings(**settings), start=start)


async def put(
    store: HotStore,
    *values: bytes,
    queue: str = "q",
    key: bytes | None = None,
    timeout: float = 0.0,  # noqa: ASYNC109 - the store waits
    **options: float,
) -> Receipt:
    """Push tasks with options."""
    headers = {TASK_OPTIONS[name]: str(value).encode() for name, value in options.items()}
    batch = payload(
        "bytes",
        list(values),
        keys=None if key is None else [key] * len(values),
        headers=[headers] * len(values) if headers else None,
    )
    return await store.append(Push(queue, batch, timeout=timeout))


async def take(
    store: HotStore, most: int = 1, group: str = "q/g", session: str = "s", **more: Any
) -> Receipts:
    taken = await store.take(Take(group, most, session=session, **more))
    assert len(taken.ids) == len(taken.attempts) == len(taken.deadlines_us) == len(taken.priorities)
    return list(zip(taken.ids, taken.attempts, strict=True))


async def change(
    store: HotStore,
    verb: TaskVerb,
    tasks: Receipts | Sequence[int],
    group: str = "q/g",
    session: str = "s",
    **more: Any,
) -> TaskOutcomes:
    ids = [task if isinstance(task, int) else task[0] for task in tasks]
    attempts = [task[1] for task in tasks if not isinstance(task, int)]
    return await store.change_tasks(TaskChange(group, verb, ids, attempts or None, session, **more))


async def states(store: HotStore, group: str = "q/g") -> dict[str, int]:
    """Tasks by state, without those that have none."""
    found = (await store.group_statistics(group)).tasks
    return {name: count for name, count in found.items() if count and name != "total"}
