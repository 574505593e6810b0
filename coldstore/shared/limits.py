"""The limits that all of jjq shares. Units come last in a name. Relations between limits are checked at import.

Wire, journal and block have the same limits. So an element that the front admits can be written everywhere
behind it, and nothing is refused after it was acknowledged.
"""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# Names and keys
NAME_CHARS_MAX: Final = 128
KEY_CHARS_MAX: Final = 1024  # S3's own limit for an object key
OFFSET_MAX: Final = 2**63 - 1

# Elements and batches
ELEMENT_BYTES_MAX: Final = 8 * MIB  # key + value + headers of one element
# A batch holds the largest element in Arrow form, and not more: a message is received, joined and copied as a whole
# before anything of it can be refused, so what one may hold is what each client can take of everybody's time.
BATCH_BYTES_MAX: Final = ELEMENT_BYTES_MAX + 256 * KIB
BATCH_ELEMENTS_MAX: Final = 1_000_000
HEADERS_MAX: Final = 1_000  # headers of one element
JSON_DEPTH_MAX: Final = 1_024  # of containers in a value of a JSON queue; the limit of its parser
COLUMN_BYTES_MAX: Final = 2**31 - 1  # of an Arrow column, whose offsets have 32 bits
MESSAGE_BYTES_MAX: Final = BATCH_BYTES_MAX + 768 * KIB  # a batch, its framing and its metadata on the wire
PRODUCER_RECEIPTS_MAX: Final = 64  # pushes of one idempotent producer that may be in flight, and retried
READ_BATCH_BYTES: Final = 4 * MIB  # what one reply, or one step of a replay, aims at

# Blocks
BLOCK_BYTES_MIN: Final = 64 * KIB
BLOCK_BYTES_DEFAULT: Final = 64 * MIB
BLOCK_BYTES_MAX: Final = 1 * GIB
# A block that would have more, or a final one that would have less, of the size that was asked for is cut or
# merged, where elements and young blocks allow: the largest element is larger than the smallest block.
BLOCK_SHARE_MAX: Final = 1.25
BLOCK_SHARE_MIN: Final = 0.5
BLOCK_SECONDS_MIN: Final = 1.0
BLOCK_SECONDS_DEFAULT: Final = 300.0
BLOCK_SECONDS_MAX: Final = 7 * 86_400.0
ROW_GROUP_BYTES: Final = 8 * MIB  # pruned reads fetch one of these, not the block
ROW_GROUP_ELEMENTS_MAX: Final = 131_072
YOUNG_SECONDS_MAX: Final = 3_600.0  # young blocks are merged at this age even if small
YOUNG_BLOCKS_MAX: Final = 64  # … or at this count
SWEEP_GRACE_SECONDS: Final = 86_400.0  # a Spark job may go on reading merged young files for so long
FINAL_BYTES_MAX: Final = 2 * (BLOCK_BYTES_MAX + 16 * MIB)  # young elements and new ones in one block
BACKUP_BYTES_AHEAD: Final = 256 * MIB  # blocks that a backup holds in memory, or one if it is larger
METADATA_BYTES_MAX: Final = 64 * KIB
DELETE_GRACE_SECONDS: Final = 7 * 86_400.0  # a deleted queue can be brought back for so long
DELETE_GRACE_SECONDS_MAX: Final = 3_650 * 86_400.0
# Who removes the files of a deleted queue looks this often whether that is still to be done. The name is free
# much later, so that whoever is slow, or was suspended, has seen by then that it is done.
PURGE_LOOK_SECONDS: Final = 60.0
NAME_REST_SECONDS: Final = 3_600.0
CODEC_THREADS_MAX: Final = 4  # that encode or decode one block; more would slow down the threads that serve

# Roll-ups: ROLLUP_BLOCKS, × ROLLUP_FANOUT, × ROLLUP_FANOUT² … blocks in one object
ROLLUP_BLOCKS: Final = 256
ROLLUP_FANOUT: Final = 4

# Object stores
OBJECT_RETRY_SECONDS: Final = 30.0  # budget for one operation, all its attempts together
OBJECT_BACKOFF_SECONDS: Final = 0.05
OBJECT_BACKOFF_SECONDS_MAX: Final = 2.0

# Large objects
OBJECT_BYTES_MIN: Final = 1 * MIB  # a larger value becomes an object, unless the client says otherwise
OBJECT_BYTES_MAX: Final = 5 * GIB  # of one object, unless the server says otherwise
PART_BYTES: Final = 8 * MIB  # of an upload in parts, all but the last; S3 wants 5 MiB or more
PARTS_MAX: Final = 10_000  # S3's own limit
OBJECT_CHUNK_BYTES: Final = 1 * MIB  # that travel, or are read, at a time
OBJECT_NAME_CHARS_MAX: Final = 255
MEDIA_TYPE_CHARS_MAX: Final = 255
URI_CHARS_MAX: Final = 2_048
ATTACHMENTS_MAX: Final = 100  # objects and references in one push

check(OBJECT_BYTES_MAX <= PART_BYTES * PARTS_MAX, "the largest object must fit into its parts")
check(ELEMENT_BYTES_MAX <= BATCH_BYTES_MAX, "an element must fit into a batch")
check(BATCH_BYTES_MAX < MESSAGE_BYTES_MAX, "a batch and its framing must fit into a message")
check(2 * BLOCK_SHARE_MIN <= BLOCK_SHARE_MAX, "what is too much for one block must fill two")
check(BLOCK_BYTES_MIN <= BLOCK_BYTES_DEFAULT <= BLOCK_BYTES_MAX, "block sizes contradict")
check(
    2 * (BLOCK_BYTES_MAX + BATCH_BYTES_MAX) <= FINAL_BYTES_MAX,
    "a block that is merged must hold its last batch",
)
check(BLOCK_BYTES_MAX + BATCH_BYTES_MAX < 2 * GIB, "a block's values must fit 32-bit Arrow offsets")
check(BLOCK_SECONDS_MIN <= BLOCK_SECONDS_DEFAULT <= BLOCK_SECONDS_MAX, "block ages contradict")
check(ROW_GROUP_BYTES <= BLOCK_BYTES_DEFAULT, "a row group must fit into a block")
check(10 * PURGE_LOOK_SECONDS <= NAME_REST_SECONDS, "a name would be free while its old files are removed")
check(OBJECT_BACKOFF_SECONDS <= OBJECT_BACKOFF_SECONDS_MAX <= OBJECT_RETRY_SECONDS, "backoff exceeds budget")
