"""What a nemesis is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from coldstore.shared.chance import SeededChance
from tests.faults.cluster import Cluster
from tests.faults.history import Recorder
from tests.faults.node import Node

T = TypeVar("T")


@dataclass
class Harm:
    """Everything a nemesis may touch. `notes` is what it did, for the report."""

    cluster: Cluster
    chance: SeededChance
    pen: Recorder  # for those that also ask
    folder: Path  # scratch of its own
    queues: list[str]
    now_ns: Callable[[], int]
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        """The victim."""
        return self.any(self.cluster.nodes)

    def below(self, most: int) -> int:
        return int(self.chance.jitter() * most)

    def any(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def some(self, of: Sequence[T]) -> Sequence[T]:
        """One of them, or all."""
        return of if len(of) == 1 or self.below(3) == 0 else [self.any(of)]


@dataclass(frozen=True)
class Nemesis:
    """`begin` does harm and `end` ends it; what is dead then is started by the run."""

    kind: str
    begin: Callable[[Harm], None]
    end: Callable[[Harm], None] = lambda harm: None
    shim: bool = False  # needs the C shim
    undo: bool = False  # needs its log of what is not durable
    s3: bool = False  # needs object storage
    nodes: bool = False  # needs several nodes
    alone: bool = False  # makes sense for one node only
    taken: bool = False  # waits until others take over, which needs journals on object storage
