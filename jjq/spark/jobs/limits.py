"""The limits of pipeline jobs, units last."""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check

TASKS_PER_CORE: Final = 4  # so that a long one among them leaves few processors idle, and progress is seen
SECTION_BLOCKS: Final = 64  # what one task verifies at most
PUBLISH_BLOCKS: Final = 16  # what one task of an import publishes; the next one begins after it
IMPORT_BLOCKS: Final = 4  # blocks that one task of an import makes, about
IMPORT_PARTITIONS_MAX: Final = 100_000
LOOK_SECONDS: Final = 0.1  # how often progress is shown

check(SECTION_BLOCKS > 0 and PUBLISH_BLOCKS > 0 and IMPORT_BLOCKS > 0, "tasks would have nothing to do")
