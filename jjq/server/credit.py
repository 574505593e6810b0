"""Flow control of a Subscribe stream: how much its client allows to be sent."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OFFSET_MAX


class Credit:
    """What may still be sent; a budget that the client left out is not kept."""

    def __init__(self, elements: int, nbytes: int) -> None:
        _refuse_negative(elements, nbytes)
        if not elements and not nbytes:
            raise InvalidInput("start without credit: allow a number of elements, of bytes, or of both")
        self._elements = elements or None
        self._bytes = nbytes or None
        self._more = asyncio.Event()

    def add(self, elements: int, nbytes: int) -> None:
        _refuse_negative(elements, nbytes)
        if self._elements is not None:
            self._elements = min(self._elements + elements, OFFSET_MAX)
        if self._bytes is not None:
            self._bytes = min(self._bytes + nbytes, OFFSET_MAX)
        self._more.set()

    @property
    def left(self) -> bool:
        return (self._elements is None or self._elements > 0) and (self._bytes is None or self._bytes > 0)

    async def wait(self) -> None:
        while not self.left:
            self._more.clear()
            await self._more.wait()

    def cut(self, batch: pa.RecordBatch, most: int) -> tuple[pa.RecordBatch, int]:
        """As much of `batch` as may be sent now, at least one element, and the bytes that it counts for."""
        if most:
            batch = batch.slice(0, most)
        if self._elements is not None:
            batch = batch.slice(0, self._elements)
            self._elements -= batch.num_rows
        nbytes = 0
        if self._bytes is not None:
            while (nbytes := batch.nbytes) > self._bytes and batch.num_rows > 1:
                fits = int(batch.num_rows * self._bytes / nbytes)
                batch = batch.slice(0, max(1, min(fits, batch.num_rows - 1)))
            self._bytes -= nbytes
        return batch, nbytes


def _refuse_negative(elements: int, nbytes: int) -> None:
    if elements < 0 or nbytes < 0:
        raise InvalidInput(f"credit must not be negative, as {min(elements, nbytes)} is")
