"""The audit queue: acts of administrators, each an element of the queue `jjq.audit`, which is made when first needed.

    {"time":"2026-01-01T00:00:00.000000Z","key":"<id>","door":"grpc","act":"DeleteQueue","queue":"orders","request":"…"}

Acts are recorded after they were done, and only if there are keys: without them nobody is anybody. An act is done
even if its element cannot be written; then an error in the log has all its fields.
"""

from __future__ import annotations

import asyncio
from typing import Final

import orjson
import structlog

from coldstore.shared.batch import from_us, payload
from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, NotFound
from coldstore.shared.push import Push
from hotstore.port import Store
from jjq.access.keys import split_key

AUDIT_QUEUE: Final = "jjq.audit"


class AuditLog:
    """Records acts; `writing` has those that are being written."""

    def __init__(self, store: Store, clock: Clock, log: structlog.typing.FilteringBoundLogger) -> None:
        self._store = store
        self._clock = clock
        self._log = log
        self.writing: set[asyncio.Task[None]] = set()
        # Acts are recorded in their order, also while the queue is made for the first one.
        self._turn = asyncio.Lock()

    def record(self, key: str | None, door: str, act: str, queue: str | None, request: str = "") -> None:
        """Record an act. `key` is the text of the key; only its id is recorded."""
        parts = None if key is None else split_key(key)
        fields = {
            "time": from_us(self._clock.now_us()).isoformat().replace("+00:00", "Z"),
            "key": None if parts is None else parts[0],
            "door": door,
            "act": act,
            "queue": queue,
            "request": request,
        }
        task = asyncio.create_task(self._push(fields), name="jjq-audit")
        self.writing.add(task)
        task.add_done_callback(self.writing.discard)

    async def _push(self, fields: dict[str, str | None]) -> None:
        push = Push(AUDIT_QUEUE, payload("text", [orjson.dumps(fields).decode()]))
        try:
            async with self._turn:
                try:
                    await self._store.append(push)
                except NotFound:
                    await self._store.create_queue(AUDIT_QUEUE, content="json")
                    await self._store.append(push)
        except JjqError as error:
            self._log.error("an act could not be written to the audit queue", why=error.message, **fields)

    async def close(self) -> None:
        """Wait until all acts are written."""
        if self.writing:
            await asyncio.wait(self.writing)
