"""Liveness: which of several documents still change, by the observer's own monotonic clock.

A living node changes its document every few seconds. An observer lists the documents again and again, and adds up for
each of them how long its version (the etag) has stayed the same. The node is *silent* once that is longer than
`silent_seconds`. This is the only rule by which jjq calls a node dead. Who uses it, and with which numbers:

    routing/nodes.py       cluster/nodes/<node>.json      one lease: a mistake costs a retry at another node
    takeover/watch.py      cluster/tenures/<node>.json    LEASE_MARGIN leases: the holder must give up first
    takeover/watch.py      this node's own beats          CUT_OFF_LEASES leases: then the node itself stops
    journal/fencing.py     one tenure, before a start     LEASE_MARGIN leases of its holder

Wall time is never asked: clocks of different machines need not agree. An observer that cannot look learns nothing, so
silence grows by looks alone. Between two looks the observer itself may have been paused: at most `gap_seconds` of that
time count. Where a mistake is cheap there is no such limit, and all of it counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldstore.shared.clock import Clock


class Liveness:
    """The rule for documents that are known by name. One thread takes in looks; others may ask."""

    def __init__(self, clock: Clock, silent_seconds: float, gap_seconds: float = math.inf) -> None:
        self._clock = clock
        self._silent_seconds = silent_seconds
        self._gap_seconds = gap_seconds
        self._versions: dict[str, str] = {}
        self._silence: dict[str, float] = {}  # seconds for which the version has been the same
        self._looked = clock.monotonic()

    def look(self, versions: Mapping[str, str]) -> None:
        """Take in one look at all documents: the version of each. Documents that are not in it are forgotten."""
        now = self._clock.monotonic()
        gap, self._looked = min(now - self._looked, self._gap_seconds), now
        self._silence = {
            name: self._silence[name] + gap if self._versions.get(name) == version else 0.0
            for name, version in versions.items()
        }
        self._versions = dict(versions)

    def note(self, name: str, version: str) -> None:
        """Take in the version of one document that was read between two looks."""
        if self._versions.get(name) != version:
            self._versions[name] = version
            # The next look adds the time since the last one: so begin below zero, to reach zero now.
            self._silence[name] = self._looked - self._clock.monotonic()

    def forget(self, name: str) -> None:
        """The document is gone."""
        self._versions.pop(name, None)
        self._silence.pop(name, None)

    @property
    def names(self) -> frozenset[str]:
        """The documents that are there."""
        return frozenset(self._versions)

    def version(self, name: str) -> str | None:
        """The version that was seen last; None: there is no such document."""
        return self._versions.get(name)

    def silence(self, name: str) -> float:
        """For how many seconds the document has stayed the same."""
        return max(0.0, self._silence.get(name, 0.0))

    def is_silent(self, name: str) -> bool:
        """Whether the document is there, and has stayed the same for too long."""
        return self.silence(name) > self._silent_seconds

    def is_alive(self, name: str) -> bool:
        """Whether the document is there, and has changed lately."""
        return name in self._versions and not self.is_silent(name)
