"""The limits of the hot store's journal, units last, with the relations between them checked at import.

Limits that wire, journal and block share (elements, batches) are in `coldstore.shared.limits`.
"""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check
from coldstore.shared.limits import BATCH_BYTES_MAX, GIB, KIB, MIB

# A batch owns whole pages, so writing one never rewrites a sector that holds another: 4 KiB is the
# physical sector of today's disks and the page of the kernel's cache.
PAGE_BYTES: Final = 4 * KIB

SEGMENT_BYTES_MIN: Final = 4 * PAGE_BYTES  # for tests; a header, two batches and an end
SEGMENT_BYTES_DEFAULT: Final = 64 * MIB
SEGMENT_BYTES_MAX: Final = 1 * GIB  # a damaged size can never ask for more

JOURNAL_BATCH_BYTES_MAX: Final = 24 * MIB  # everything that one group commit writes, framing included
JOURNAL_RECORDS_MAX: Final = 1_000_000  # in one batch

# Pieces up to this are joined before they are written: one copy costs less than one more iovec and
# one more checksum call (measured: even at 32 KiB). Larger ones go to the kernel from where they lie.
GATHER_BYTES_MAX: Final = 32 * KIB

SCAN_BYTES: Final = 8 * MIB  # read at once in recovery; the memory that recovery needs
ZERO_BYTES: Final = 1 * MIB  # written at once when a new segment is filled with zeros
FREE_SEGMENTS_MAX: Final = 8  # kept for reuse, so that a burst need not wait for zeros; others are removed

BOUNDS_SEGMENTS_MAX: Final = 2_000  # that the file beside the journal names; of more, the newest

# Elements that an operator may give up at once: a mistaken number must not fill the store with placeholders.
LOST_ELEMENTS_MAX: Final = 100_000_000
LOST_BLOCK_ELEMENTS: Final = 1_000_000  # placeholders in one block

EXPOSED_QUEUES_MAX: Final = 250  # that the document in the cold store names: it must stay small
WITNESS_SECONDS: Final = 30.0  # how often the cold store is told how far a busy journal goes: each is a put

# Idempotent producers, per queue
RETRY_CHECK_SECONDS: Final = (
    2.0  # to compare a retry with what was pushed before, which may be in the cold store
)
PRODUCERS_MAX: Final = 10_000

CHECKPOINT_ROWS: Final = 500  # in one record, so that no group waits for a long one

# Of the elements that a replay takes from the tail at once: pushes are copied together, and what is copied is
# soon copied again for the wire. With 4 MiB it has left the caches by then, and a third of the rate is lost.
TAIL_READ_BYTES: Final = 1 * MIB

MOVE_BYTES: Final = 2 * MIB  # unsealed bytes of a queue with which its move may begin: they make the pause

COLD_ANSWER_SECONDS: Final = 3.0  # a status does not wait longer for the cold store

EXPECTED_QUEUES_MAX: Final = 64  # whose blocks are known before they arrive from another node

check(
    BATCH_BYTES_MAX < JOURNAL_BATCH_BYTES_MAX, "an admitted batch and its framing must fit into the journal"
)
check(JOURNAL_BATCH_BYTES_MAX < SEGMENT_BYTES_DEFAULT, "a batch must fit into a segment")
check(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_DEFAULT <= SEGMENT_BYTES_MAX, "segment sizes contradict")
check(ZERO_BYTES % PAGE_BYTES == 0 and SCAN_BYTES % PAGE_BYTES == 0, "reads and writes must be whole pages")
check(SEGMENT_BYTES_DEFAULT % PAGE_BYTES == 0, "a segment must be whole pages")
