"""The tenure of a node: one document that says which process is the node, and whether it still is.

cluster/tenures/<node>.json, changed by compare-and-swap only

{"beat":417,                      grows while the node lives; others watch it, by their own clocks
 "boundary":8300,                 nothing in the journal before this number is needed
 "by":null,                       who ended the tenure
 "check":"<hex>", "format":1,
 "holder":{…},                    the process and its data directory, see holder.py; not in early releases
 "estates":[[1,4,0,8129]],        journals of tenures that were ended and are not taken over in full:
                                  first run, last run, first number, number of the fence that ends it
 "journal":"s3",                  disk | s3
 "node":"n1",
 "run":6,                         grows with every process that is this node
 "since":5,                       the runs since..run are one tenure: what they owned, this one owns
 "state":"open",                  open → ended (by another node) → settled (nothing left to take over)
 "token":"<32 hex digits>"}       the process

A process that starts as node X makes itself the next run. If the tenure of X is open, it goes on: no other node can
have taken a queue of X, so the process owns everything that X owned, and reads no shards document. If another node has
ended the tenure, a new one begins (`since` = `run`). The journal of the ended one is an *orphan journal* ("estates" in
the document): any node, X among them, takes it over queue by queue.

Other nodes may take queues from a run only when its tenure is over (`is_over`). The owner calls `check` after each
journal put, before it acknowledges: this one document covers all its queues.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeVar

from coldstore.layout import paths, sealed_json
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change
from coldstore.objects.swap import swap as swap_object
from coldstore.shared.errors import Conflict, DataLoss, Fenced, InvalidInput, JjqError, NotFound
from sharding.documents import holder as holders
from sharding.documents.holder import Holder

FORMAT: Final = 1

State = Literal["open", "ended", "settled"]
JournalKind = Literal["disk", "s3"]

_TRIES: Final = 32


class OrphanJournal(NamedTuple):
    """The journal that an ended tenure left behind: numbers first..end of the runs since..run."""

    since: int
    run: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """What a tenure document says."""

    node: str
    run: int
    since: int
    token: str
    journal: JournalKind
    state: State = "open"
    boundary: int = 0
    orphans: tuple[OrphanJournal, ...] = ()
    by: str | None = None
    beat: int = 0
    holder: Holder | None = None

    def is_over(self, run: int) -> bool:
        """Whether a queue that was owned in this run has lost its owner."""
        return run < self.since or (run <= self.run and self.state != "open")


T = TypeVar("T", bound=Tenure | None)


class StoredTenure(NamedTuple):
    """A document, and the version of the object that it was read from."""

    tenure: Tenure
    etag: str


def read(objects: ObjectStore, node: str) -> StoredTenure | None:
    """The tenure of a node; None if there never was one."""
    key = paths.tenure(node)
    try:
        found = objects.get(key)
    except NotFound:
        return None
    return StoredTenure(decode(found.data, key), found.etag)


def swap(objects: ObjectStore, found: StoredTenure, new: Tenure) -> StoredTenure:
    """Replace the document that was read; `Conflict` if it changed since."""
    return StoredTenure(new, objects.put_if_match(paths.tenure(new.node), encode(new), found.etag))


def end(objects: ObjectStore, found: StoredTenure, by: str) -> StoredTenure:
    """End the tenure that was read, in the very state in which it was read; `Conflict` if it moved on."""
    return swap(objects, found, replace(found.tenure, state="ended", by=by, beat=found.tenure.beat + 1))


def settle(objects: ObjectStore, node: str, orphan: OrphanJournal) -> None:
    """Forget an orphan journal that was taken over in full. Repeating is no error."""

    def make(now: Tenure | None) -> Tenure | None:
        if now is None:
            return None
        if now.run == orphan.run and now.state == "ended":
            new = replace(now, state="settled", boundary=orphan.end)
        else:
            new = replace(now, orphans=tuple(e for e in now.orphans if e.run != orphan.run))
        return now if new == now else replace(new, beat=now.beat + 1)

    change(objects, node, make, Conflict(f"the tenure of node {node} keeps changing: try again"))


def change(objects: ObjectStore, node: str, make: Callable[[Tenure | None], T], busy: JjqError) -> T:
    """Swap the document for what `make` makes of it, unless that is the same; again if others change it meanwhile."""
    key = paths.tenure(node)

    def decide(found: Object | None) -> Change[T]:
        now = None if found is None else decode(found.data, key)
        new = make(now)
        return Change(None if new is None or new == now else encode(new), new)

    return swap_object(objects, key, decide, busy=busy, tries=_TRIES).result


class OwnTenure:
    """This process's own tenure. Safe to use from several threads."""

    def __init__(self, objects: ObjectStore, tenure: Tenure) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self.tenure = tenure

    @property
    def node(self) -> str:
        return self.tenure.node

    @property
    def run(self) -> int:
        return self.tenure.run

    @property
    def token(self) -> bytes:
        return bytes.fromhex(self.tenure.token)

    def check(self) -> None:
        """Return if this process was still the node at a moment after the call began, else `Fenced`."""
        self._swap(lambda now: now)

    def beat(self) -> None:
        """Change the document, so that others see that this process lives; `Fenced` if the tenure is over."""
        self.change(lambda now: replace(now, beat=now.beat + 1))

    def advance(self, boundary: int) -> None:
        """Write that nothing in the journal before `boundary` is needed; `Fenced` if the tenure is over."""
        self.change(lambda now: replace(now, boundary=max(now.boundary, boundary)))

    def change(self, make: Callable[[Tenure], Tenure]) -> None:
        """Swap our document for what `make` makes of it; `Fenced` if the tenure is over."""
        with self._lock:
            self.tenure = self._swap(make)

    def _swap(self, make: Callable[[Tenure], Tenure]) -> Tenure:
        busy = Conflict(f"the tenure of node {self.node} keeps changing: is another process using this name?")
        return change(self._objects, self.node, lambda now: make(self._mine(now)), busy)

    def _mine(self, found: Tenure | None) -> Tenure:
        """The tenure that was read, if it is ours; else `Fenced`."""
        if found is None or found.token != self.tenure.token or found.state != "open":
            raise self._fenced(found)
        return found

    def _fenced(self, found: Tenure | None) -> Fenced:
        by = None if found is None else found.by
        return Fenced(
            f"this process is not node {self.node} any more: "
            + (f"node {by} has taken its queues over" if by else "another process has its name")
            + "; start it again",
            owner=by,
        )


def encode(tenure: Tenure) -> bytes:
    fields: dict[str, Any] = {
        "beat": tenure.beat,
        "boundary": tenure.boundary,
        "by": tenure.by,
        "estates": [list(orphan) for orphan in tenure.orphans],
        "journal": tenure.journal,
        "node": tenure.node,
        "run": tenure.run,
        "since": tenure.since,
        "state": tenure.state,
        "token": tenure.token,
    }
    if tenure.holder is not None:
        fields["holder"] = holders.encode(tenure.holder)
    return sealed_json.seal(fields, FORMAT)


def decode(data: bytes | memoryview, key: str) -> Tenure:
    """The tenure at `key`, or `DataLoss` naming it."""
    fields: dict[str, Any] = sealed_json.unseal(data, key, FORMAT)
    try:
        tenure = Tenure(
            node=fields["node"],
            run=fields["run"],
            since=fields["since"],
            token=fields["token"],
            journal=fields["journal"],
            state=fields["state"],
            boundary=fields["boundary"],
            orphans=tuple(OrphanJournal(*orphan) for orphan in fields["estates"]),
            by=fields["by"],
            beat=fields["beat"],
            holder=holders.decode(fields.get("holder")),
        )
        home = paths.tenure(tenure.node)
    except (KeyError, TypeError, InvalidInput) as error:
        raise DataLoss(f"{key} does not describe a tenure: {error}", key=key) from error
    if home != key or not 1 <= tenure.since <= tenure.run:
        raise DataLoss(f"{key} describes node {tenure.node!r}, run {tenure.run}: swapped files?", key=key)
    return tenure
