"""Settings of the hot store: values only, validated once, where they are created."""

from __future__ import annotations

from dataclasses import dataclass

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import BATCH_BYTES_MAX, GIB, MIB, OBJECT_BYTES_MAX, PART_BYTES, PARTS_MAX
from hotstore.limits import GROUP_BYTES_MAX


@dataclass(frozen=True, slots=True)
class HotSettings:
    """Budgets and ages. Bytes are admitted at the front: a full budget refuses pushes, never reads."""

    segment_bytes: int = 64 * MIB
    journal_bytes_max: int = 4 * GIB
    unsealed_bytes_max: int = 1 * GIB  # hot-hot and sealing blocks, which are in memory until they are cold
    pending_bytes_max: int = 64 * MIB  # pushed, not yet in the journal
    group_bytes_max: int = 4 * MIB  # one journal write; a larger single push is a group of its own
    hot_bytes_max: int = 512 * MIB  # loaded blocks, shared by all subscribers
    disk_free_bytes_min: int = 256 * MIB
    idle_seconds: float = 600.0  # a subscriber that nobody asks for falls asleep
    producer_seconds: float = 7 * 86_400.0  # an idle producer's receipts are forgotten
    maintain_seconds: float = 0.5
    checkpoint_seconds: float = 5.0  # how far the checkpoint may be behind
    merge_seconds: float = 10.0  # how often young blocks are looked at
    sweep_seconds: float = 3_600.0
    object_bytes_max: int = OBJECT_BYTES_MAX  # of one large object
    queue_objects_bytes_max: int = 0  # of all large objects of a queue; 0: no quota
    seal_on_close: bool = False  # off: the tail stays in the journal and the next start is as quick

    def __post_init__(self) -> None:
        if self.segment_bytes < 2 * GROUP_BYTES_MAX:
            raise InvalidInput(
                f"segment_bytes must be at least {2 * GROUP_BYTES_MAX}, so that every batch fits"
            )
        if self.journal_bytes_max < 4 * self.segment_bytes:
            raise InvalidInput(
                f"journal_bytes_max must be at least four segments, {4 * self.segment_bytes} bytes"
            )
        for name in ("unsealed_bytes_max", "pending_bytes_max"):
            if getattr(self, name) < BATCH_BYTES_MAX:
                raise InvalidInput(f"{name} must hold one batch, at least {BATCH_BYTES_MAX} bytes")
        for name in (
            "idle_seconds",
            "producer_seconds",
            "maintain_seconds",
            "checkpoint_seconds",
            "merge_seconds",
            "sweep_seconds",
        ):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive")
        if not 0 < self.group_bytes_max <= GROUP_BYTES_MAX:
            raise InvalidInput(f"group_bytes_max must be between 1 and {GROUP_BYTES_MAX} bytes")
        if not 0 <= self.object_bytes_max <= PART_BYTES * PARTS_MAX:
            raise InvalidInput(f"object_bytes_max must be between 0 and {PART_BYTES * PARTS_MAX} bytes")
        for name in ("hot_bytes_max", "disk_free_bytes_min", "queue_objects_bytes_max"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} must not be negative")
