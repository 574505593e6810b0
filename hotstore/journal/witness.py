"""A note in the cold store about a journal on a disk: that there was one, how far it went, and what only it held.

A disk that is lost takes its own notes with it (bounds.py). So a small document in the cold store says the
same, now and then, and an empty or an older data directory is not taken for a new or a complete one:

    journal.json, or cluster/journals/<node>.json where the node is one of several; a sealed document

    {"check":"<hex>", "closed":false, "exposed":[["orders","<queue id>",1200]], "format":1,
     "journal":"<16 hex digits>", "place":"s3://bucket/prefix", "synced":4711}

`exposed` are queues with elements that are only in the journal, and where they end. After a clean stop
(`closed`) the document is exact; before, it is as old as WITNESS_SECONDS. `place` is where the cold store lay:
a copy of it, taken to another place, is not the store that this journal fed, and nothing is missing there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from coldstore.layout import paths, sealed_json
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import DataLoss, NotFound
from hotstore.journal.port import Extent
from hotstore.limits import EXPOSED_QUEUES_MAX

log = logging.getLogger("jjq.hotstore")

_FORMAT: Final = 1


class Exposed(NamedTuple):
    """A queue of which elements are in the journal only, up to `next`."""

    name: str
    id: str
    next: int


@dataclass(frozen=True, slots=True)
class Testimony:
    """What was said last."""

    journal: int
    synced: int
    closed: bool  # nothing was written after it
    exposed: tuple[Exposed, ...]
    place: str

    @property
    def extent(self) -> Extent:
        return Extent(self.journal, None, self.synced, closed=self.closed)


class Witness:
    """Reads and writes the document of one node. Blocking: for a worker thread."""

    def __init__(self, objects: ObjectStore, node: str | None = None, place: str = "") -> None:
        self._objects = objects
        self._key = paths.witness(node)
        self._place = place  # "": not known, and taken for any
        self._known: Testimony | None = None
        self._was_read = False

    def read_last(self) -> Testimony | None:
        """What an earlier run said of this place; None if nothing was said, or it cannot be read."""
        if not self._was_read:
            self._known, self._was_read = self._read(), True
        return self._known

    def extent(self) -> Extent | None:
        """The same, as a journal wants to know it."""
        said = self.read_last()
        return None if said is None else said.extent

    def testify(self, extent: Extent, exposed: Sequence[Exposed], *, closed: bool) -> None:
        """Write how far the journal goes. If there are too many queues to name, do not claim a clean stop."""
        named = tuple(exposed[:EXPOSED_QUEUES_MAX])
        exact = closed and len(named) == len(exposed)
        said = Testimony(extent.journal, extent.synced, exact, named, self._place)
        fields = {
            "journal": f"{said.journal:016x}",
            "synced": said.synced,
            "closed": said.closed,
            "exposed": [list(each) for each in named],
            "place": said.place,
        }
        self._objects.put(self._key, sealed_json.seal(fields, _FORMAT))
        self._known, self._was_read = said, True

    def _read(self) -> Testimony | None:
        try:
            fields = sealed_json.unseal(self._objects.get(self._key).data, self._key, _FORMAT)
            said = Testimony(
                int(fields["journal"], 16),
                int(fields["synced"]),
                bool(fields["closed"]),
                tuple(Exposed(str(name), str(id_), int(next_)) for name, id_, next_ in fields["exposed"]),
                str(fields["place"]),
            )
        except NotFound:
            return None
        except (DataLoss, KeyError, TypeError, ValueError) as error:
            log.error(
                "%s cannot be read, so a journal that is lost or old may go unnoticed: %s", self._key, error
            )
            return None
        if said.place and self._place and said.place != self._place:
            log.warning(
                "this cold store is a copy of %s: elements that were acknowledged there and not yet cold are not in it",
                said.place,
            )
            return None
        return said
