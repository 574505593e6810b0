"""Many writers at one instant, as threads or as processes, and what became of each."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from coldstore.objects.local import LocalObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import Conflict

WRITERS = 16
Write = Callable[[ObjectStore, bytes], str]

_start: Barrier


def absent(objects: ObjectStore, data: bytes) -> str:
    return objects.put_if_absent("race", data)


def match(objects: ObjectStore, data: bytes) -> str:
    """Swap the version that all of them have read."""
    etag = objects.head("race").etag
    _start.wait(30)
    return objects.put_if_match("race", data, etag)


def race_threads(objects: ObjectStore, write: Write) -> list[bytes]:
    """What the winners wrote."""
    _line_up(threading.Barrier(WRITERS))
    with ThreadPoolExecutor(WRITERS) as pool:
        return _winners(list(pool.map(lambda n: _attempt(objects, write, n), range(WRITERS))))


def race_processes(root: Path, write: Write) -> list[bytes]:
    """As above, each writer a process of its own with the same local store."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start = context.Barrier(WRITERS)
    with ProcessPoolExecutor(WRITERS, context, _line_up, (start,)) as pool:
        tasks = [pool.submit(_attempt_at, root, write, n) for n in range(WRITERS)]
        return _winners([task.result(60) for task in tasks])


def _line_up(start: Barrier) -> None:
    global _start  # noqa: PLW0603 - a barrier reaches another process only as it is born
    _start = start


def _attempt_at(root: Path, write: Write, number: int) -> bytes | None:
    return _attempt(LocalObjects(root), write, number)


def _attempt(objects: ObjectStore, write: Write, number: int) -> bytes | None:
    data = b"writer %d" % number
    if write is absent:
        _start.wait(30)
    try:
        write(objects, data)
    except Conflict:
        return None
    return data


def _winners(written: list[bytes | None]) -> list[bytes]:
    return [data for data in written if data is not None]
