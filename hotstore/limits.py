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

GROUP_BYTES_MAX: Final = 16 * MIB  # pushes of one group commit
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
# How often a busy journal writes to the cold store how far it goes: each is a put.
WITNESS_SECONDS: Final = 30.0

# Idempotent producers, per queue
# To compare a retry with what was pushed before, which may be in the cold store.
RETRY_CHECK_SECONDS: Final = 2.0
PRODUCERS_MAX: Final = 10_000

# Of state in one record, or taken in one step of the event loop: no push waits longer.
CHECKPOINT_ROWS: Final = 500
CHECKPOINT_MEMORY: Final = "512MB"  # that DuckDB may take to write or read a checkpoint
CHECKPOINTS_KEPT: Final = 2  # so that one may be damaged
SALVAGE_SECONDS: Final = 20.0  # for a look at one that is
AFFECTED_SHOWN: Final = 10  # lost subscribers of a queue that an error names

# Of the elements that a replay takes from the tail at once: pushes are copied together, and what is copied is
# soon copied again for the wire. With 4 MiB it has left the caches by then, and a third of the rate is lost.
TAIL_READ_BYTES: Final = 1 * MIB

MOVE_BYTES: Final = 2 * MIB  # unsealed bytes of a queue with which its move may begin: they make the pause

COLD_ANSWER_SECONDS: Final = 3.0  # a status does not wait longer for the cold store

EXPECTED_QUEUES_MAX: Final = 64  # whose blocks are known before they arrive from another node

# Worker groups
SECONDS_MAX: Final = 10 * 366 * 86_400.0  # of a ttl, ttr or delay: ten years
PRIORITY_MAX: Final = 2**31 - 1
TIMER_LANES_MAX: Final = 64  # durations with a lane of their own; others share a heap
ATTEMPTS_MAX: Final = 1_000_000
CAPACITY_MAX: Final = 1_000_000_000
PER_KEY_MAX: Final = 1_000_000
RATE_MAX: Final = 1_000_000.0  # takes of one key per second
TAKE_TASKS_MAX: Final = 100_000  # in one reply
CHANGE_TASKS_MAX: Final = 1_000_000  # in one request
REASON_CHARS_MAX: Final = 1_024  # of a nack or bury: more is cut off
LEDGER_NAME_CHARS_MAX: Final = 200  # of queue and group together: the ledger's name is one folder
KEYED_TASKS_MAX: Final = 1_000_000  # waiting tasks that a driver with keys knows; more wait in the log
LEDGER_BLOCK_BYTES: Final = 8 * MIB  # after a crash, the rows of about one block are folded
LEDGER_PUSH_BYTES: Final = 4 * MIB  # of rows in one group commit; more go with the next
SNAPSHOT_ROWS: Final = 10_000  # of a ledger after its last snapshot, for which a clean end puts another
SNAPSHOTS_KEPT: Final = 2  # beside a ledger
LIST_TASKS_MAX: Final = 10_000  # in one page

# Large objects
UPLOADS_MAX: Final = 32  # under way at a node; each holds a few parts in memory
UPLOAD_IDLE_SECONDS: Final = 600.0  # then an upload that was cut off is given up
OBJECTS_LOOKED_AT: Final = 1_000  # of a queue; if it has more, an object is hashed before it is sent
# So long the bytes of a queue's objects are not counted again, where it has a quota.
OBJECT_USE_SECONDS: Final = 60.0

check(BATCH_BYTES_MAX <= GROUP_BYTES_MAX, "an admitted batch must fit into a group")
check(GROUP_BYTES_MAX < JOURNAL_BATCH_BYTES_MAX, "a group and its framing must fit into the journal")
check(JOURNAL_BATCH_BYTES_MAX < SEGMENT_BYTES_DEFAULT, "a batch must fit into a segment")
check(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_DEFAULT <= SEGMENT_BYTES_MAX, "segment sizes contradict")
check(ZERO_BYTES % PAGE_BYTES == 0 and SCAN_BYTES % PAGE_BYTES == 0, "reads and writes must be whole pages")
check(SEGMENT_BYTES_DEFAULT % PAGE_BYTES == 0, "a segment must be whole pages")
