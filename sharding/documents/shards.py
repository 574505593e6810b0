"""The shards document of a queue: who serves it. Changed by compare-and-swap only.

queues/<name>/shards.json

{"check":"<hex>",                 see coldstore.layout.sealed_json
 "epoch":3,                       grows with every change of owner; 1 is the creator's tenure
 "format":1,
 "owner":"n2",                    the node that writes the tail and is home of the subscribers
 "queue":"<32 hex digits>",       id of the queue
 "ranges":[[0,4096,"n3"]],        blocks that others serve: first offset, end, node; in order, no overlap
 "run":7,                         the owner's run (tenure.py) in which it became the owner, or a later one
 "state":"00…03-<token>.json",    subscribers and producers at the swap, under state/; null: none yet
 "version":9}                     grows with every change: no two contents are alike, as S3's etags demand

The swap is the commit point of every move. Before it, everything that the new owner needs is in the cold store and in
the state document that the new version names. So there is no move in progress to record: a move that breaks off has
happened, or has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from coldstore.layout import paths, sealed_json
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change
from coldstore.objects.swap import swap as swap_object
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, JjqError, NotFound

FORMAT: Final = 1


class Range(NamedTuple):
    """Elements `first` up to, not including, `next` are served by `node`."""

    first: int
    next: int
    node: str


@dataclass(frozen=True, slots=True)
class Shards:
    """Who serves a queue."""

    name: str
    queue: str  # its id
    epoch: int
    owner: str
    run: int
    state: str | None = None
    ranges: tuple[Range, ...] = ()
    version: int = 1

    def server_of(self, offset: int) -> Range:
        """The range that has `offset`, with its node. `next` is -1 if the range has no end."""
        at = 0
        for found in self.ranges:
            if offset < found.first:
                return Range(at, found.first, self.owner)
            if offset < found.next:
                return found
            at = found.next
        return Range(at, -1, self.owner)

    def moved(self, owner: str, run: int, state: str | None) -> Shards:
        """The document with a new owner: the next epoch."""
        ranges = tuple(found for found in self.ranges if found.node != owner)
        return replace(self, epoch=self.epoch + 1, owner=owner, run=run, state=state, ranges=ranges)


class StoredShards(NamedTuple):
    """A document, and the version of the object that it was read from."""

    shards: Shards
    etag: str


def read(objects: ObjectStore, queue: str) -> StoredShards | None:
    """The document of a queue; None if it has none."""
    key = paths.shards(queue)
    try:
        found = objects.get(key)
    except NotFound:
        return None
    return StoredShards(decode(found.data, queue), found.etag)


def create(objects: ObjectStore, shards: Shards) -> Shards:
    """Put the first document. Returns the document that is there: ours, or that of a node that was quicker."""
    try:
        objects.put_if_absent(paths.shards(shards.name), encode(shards))
    except Conflict:
        found = read(objects, shards.name)
        if found is None:
            raise
        return found.shards
    return shards


def swap(objects: ObjectStore, found: StoredShards, new: Shards) -> Shards:
    """Replace the document that was read; `Conflict` if it changed since."""
    new = replace(new, version=found.shards.version + 1)
    objects.put_if_match(paths.shards(new.name), encode(new), found.etag)
    return new


def change(
    objects: ObjectStore,
    queue: str,
    make: Callable[[Shards], Shards],
    *,
    missing: Callable[[], Shards] | None = None,
    busy: JjqError | None = None,
) -> Shards:
    """Swap the document for what `make` makes of the present one, unless that is the same. Returns the document.

    `make` is called again if others change the document meanwhile; if they do not stop, `busy` is raised. If there is
    no document, `missing` makes the first one; without `missing`, that is `NotFound`.
    """

    def decide(found: Object | None) -> Change[Shards]:
        if found is None:
            if missing is None:
                raise NotFound(f"queue {queue} has no owner yet: push to it first, or correct the name")
            first = missing()
            return Change(encode(first), first)
        now = decode(found.data, queue)
        new = make(now)
        if new == now:
            return Change(None, now)
        new = replace(new, version=now.version + 1)
        return Change(encode(new), new)

    busy = busy or Conflict(f"queue {queue} keeps changing hands: look at it again, then decide")
    return swap_object(objects, paths.shards(queue), decide, busy=busy).result


def check_ranges(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """`ranges` in order; `InvalidInput` if one is empty or two overlap."""
    in_order = tuple(sorted(Range(*each) for each in ranges))
    for each in in_order:
        paths.check_name(each.node, "node")
        if not 0 <= each.first < each.next:
            raise InvalidInput(f"range {each.first}..{each.next} is empty: give first and end, in order")
    for left, right in pairwise(in_order):
        if left.next > right.first:
            raise InvalidInput(f"ranges overlap at offset {right.first}: each block has one server")
    return in_order


def encode(shards: Shards) -> bytes:
    fields = {
        "epoch": shards.epoch,
        "owner": shards.owner,
        "queue": shards.queue,
        "ranges": [list(each) for each in shards.ranges],
        "run": shards.run,
        "state": shards.state,
        "version": shards.version,
    }
    return sealed_json.seal(fields, FORMAT)


def decode(data: bytes | memoryview, queue: str) -> Shards:
    """The document of `queue`, or `DataLoss` naming its key."""
    key = paths.shards(queue)
    fields: dict[str, Any] = sealed_json.unseal(data, key, FORMAT)
    try:
        shards = Shards(
            name=queue,
            queue=fields["queue"],
            epoch=fields["epoch"],
            owner=paths.check_name(fields["owner"], "node"),
            run=fields["run"],
            state=fields["state"],
            ranges=check_ranges([Range(*each) for each in fields["ranges"]]),
            version=fields["version"],
        )
    except (KeyError, TypeError, InvalidInput) as error:
        raise DataLoss(f"{key} does not say who serves the queue: {error}", key=key) from error
    if shards.epoch < 1 or shards.run < 1 or shards.version < shards.epoch:
        raise DataLoss(f"{key} has impossible numbers: {shards}", key=key)
    return shards
