"""The limits of Spark: reads, streams, writes and jobs. Units come last in a name."""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check
from coldstore.shared.limits import BATCH_BYTES_MAX, KIB, MIB, NAME_CHARS_MAX, PRODUCER_RECEIPTS_MAX

PARTITION_BYTES_MIN: Final = 64 * KIB
PARTITION_BYTES_DEFAULT: Final = 64 * MIB  # stored bytes that one task reads, unless one block has more
PARTITIONS_MIN: Final = 8  # a short range is split further, so that more than one executor reads it
HOT_PARTITION_ELEMENTS: Final = 250_000  # of the hot tail, one stream from a server each
NAMED_FILES_MAX: Final = 32  # Spark checks so many paths by itself, and starts a job for more

# Large objects
OBJECTS_BYTES: Final = 32 * MIB  # of them together, before rows are handed to Spark
OBJECT_BYTES_DEFAULT: Final = 256 * MIB  # of one, unless the caller says otherwise
OBJECT_BYTES_MAX: Final = 1_536 * MIB  # a row of Spark has less than 2 GiB

# Streams
LOOK_SECONDS: Final = 1.0  # between two looks into a cold store that had nothing new
SAMPLE_ELEMENTS: Final = 100  # of the hot tail, by which a limit in bytes is judged

# Writing
PUSH_ELEMENTS: Final = 50_000
PUSH_BYTES: Final = 2 * MIB  # in Arrow form; what is larger is split
PRODUCER_CHARS_MAX: Final = NAME_CHARS_MAX - 24  # of a job; partition and run come behind it
PUSHES_IN_FLIGHT: Final = 8
PUSH_SECONDS: Final = 120.0  # until a push has its receipt, with all attempts

# Jobs
TASKS_PER_CORE: Final = 4  # so that a long one among them leaves few processors idle, and progress is seen
SECTION_BLOCKS: Final = 64  # what one task verifies at most
PUBLISH_BLOCKS: Final = 16  # what one task of an import publishes; the next one begins after it
IMPORT_BLOCKS: Final = 4  # blocks that one task of an import makes, about
IMPORT_PARTITIONS_MAX: Final = 100_000
DIRECT_BYTES_MAX: Final = (
    256 * MIB
)  # of Parquet, before compression, that one task imports without Spark's rows …
DIRECT_TABLE_BYTES_MAX: Final = 1_024 * MIB  # … if it is not more as Arrow …
DIRECT_FILES_MAX: Final = 256  # … nor in more files
SOURCE_FILES: Final = 16  # of an import, that are looked at before Spark starts
SOURCE_LINES: Final = 1_000  # of one of them, if it is text
SOURCE_LINE_BYTES: Final = 256 * KIB
PROGRESS_SECONDS: Final = 0.1  # between two looks at the progress of a job

check(PUSHES_IN_FLIGHT <= PRODUCER_RECEIPTS_MAX, "a push could not be distinguished from the one before it")
check(PUSH_BYTES < BATCH_BYTES_MAX, "pushes would be refused")
check(PARTITION_BYTES_MIN <= PARTITION_BYTES_DEFAULT, "partition sizes contradict")
check(SECTION_BLOCKS > 0 and PUBLISH_BLOCKS > 0 and IMPORT_BLOCKS > 0, "tasks would have nothing to do")
