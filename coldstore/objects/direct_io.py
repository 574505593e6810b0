"""Writing a large file past the page cache.

A block is written once and hardly ever read back soon: whoever reads it now has it in memory already.
Going through the page cache costs a page for every 4 KiB and pushes out what is worth caching; here
that was 80 ms of processor time for a block of 43 MB, against 2 ms with direct I/O and the memory
copy below. The kernel wants direct writes aligned in memory, in the file and in length, so pieces are
gathered in an aligned buffer; what does not fill it is written the ordinary way, and so is everything
on file systems that know no direct I/O.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

_STAGE_BYTES: Final = 4 << 20  # a multiple of every alignment there is
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


def write_past_cache(fd: int, pieces: Iterable[memoryview]) -> None:
    """Write all pieces at the file's position, which must be its start. Not durable before fsync."""
    _set_direct(fd, True)
    with ThreadPoolExecutor(1, "jjq-disk") as disk:  # writes one buffer while the next is made and filled
        stage, spare = (memoryview(mmap.mmap(-1, _STAGE_BYTES)) for _ in range(2))  # page-aligned
        writing: Future[None] | None = None
        filled = 0
        for piece in pieces:
            rest = memoryview(piece).cast("B")
            while rest:
                count = min(len(rest), _STAGE_BYTES - filled)
                stage[filled : filled + count] = rest[:count]
                filled += count
                rest = rest[count:]
                if filled == _STAGE_BYTES:
                    if writing is not None:
                        writing.result()
                    writing = disk.submit(_write, fd, stage)
                    stage, spare = spare, stage
                    filled = 0
        if writing is not None:
            writing.result()
    _set_direct(fd, False)
    write_buffered(fd, stage[:filled])


def write_buffered(fd: int, data: memoryview) -> None:
    """All of `data`, whatever the system takes at a time."""
    while data:
        data = data[os.write(fd, data) :]


def _write(fd: int, stage: memoryview) -> None:
    """One full buffer, directly as far as that goes."""
    try:
        written = os.write(fd, stage)
    except OSError:
        # Refused here although allowed before: if it is not the alignment, it is refused again below.
        written = 0
    if written < len(stage):
        _set_direct(fd, False)
        write_buffered(fd, stage[written:])


def _set_direct(fd: int, direct: bool) -> None:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    wanted = flags | _DIRECT if direct else flags & ~_DIRECT
    if wanted != flags:
        try:
            fcntl.fcntl(fd, fcntl.F_SETFL, wanted)
        except OSError:
            if not direct:
                raise
