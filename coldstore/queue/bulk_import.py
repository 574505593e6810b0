"""Import: many final blocks, made elsewhere in parallel, become part of a queue in one step.

    1. begin     `queue.json` is put, or swapped, with the field `importing`. From here on all others see that the
                 queue is being imported, and leave it alone. This also reserves the name
    2. stage     data files are put under `young/`, where no engine looks and no metadata names them; in any order,
                 by any number of processes
    3. publish   one block after the other, in order: the staged bytes to `data/`, then the final metadata
    4. show      roll-ups; then `queue.json` is swapped for one without the field. This is the commit point: before it
                 no reader sees an element of the import, after it every reader sees all of them
    5. forget    the staged files are deleted; `sweep` finds those that stay

**`data/` is a gapless prefix at every instant**, since step 3 puts a file only when the one before it is
there. (Its price is that the bytes are written twice and published one block at a time. Writing to `data/`
side by side would show gaps to engines; a server-side copy is not among the seven verbs, and SeaweedFS,
files and AWS differ in what it guarantees.)

A crash leaves a queue with the field, and files that no reader sees. The next import of this queue takes
over. It swaps `queue.json`, so that the first import, if it still runs, fails with `Conflict` at its next
step. Then it removes what the first one has published, last block first. (An engine that reads `data/`
meanwhile sees a shorter prefix: blocks that were not shown are not history yet.) Staged files stay and are
not put again, since their names are their digests. `abandon` removes everything.

**Who may import.** Into a new queue: anybody. Into a queue that exists: only if it is idle, which means that
no server has it open and no journal holds elements of it that are in no block. Otherwise elements in a
journal would get the offsets of imported ones. The cold store cannot see this, so the caller has to say so.
What the cold store can see is checked: the node that owns the queue (`shards.json`) has left the cluster
(`cluster/nodes/`), no young block waits to be merged, and no server left a block half-written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coldstore.block import encode
from coldstore.block.draft import Draft
from coldstore.block.fetch import fetch
from coldstore.block.files import BlockFiles, check_digest
from coldstore.history import load, rollups
from coldstore.layout import metadata, paths, queue_settings, sealed_json
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.queue_settings import Importing, QueueSettings
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.queue import deletion
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, DataLoss, NotFound

_TAG_CHARS: Final = 16
_SHARDS_FORMAT: Final = 1


class Staged(NamedTuple):
    """A data file that waits under `young/`, and what its metadata will say."""

    first: int
    last: int
    min_timestamp_us: int
    max_timestamp_us: int
    stored_bytes: int
    raw_bytes: int
    sha256: str

    @property
    def path(self) -> str:
        return paths.young_path(self.first, self.sha256[:_TAG_CHARS])


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to fill a queue, as long as nobody takes it over; small, and good on any machine."""

    settings: QueueSettings
    before: BlockMetadata | None = None  # the last block that was there

    @property
    def importing(self) -> Importing:
        if self.settings.importing is None:
            raise AssertionError("a ticket without an import")
        return self.settings.importing

    @property
    def first(self) -> int:
        return self.importing.first

    def files(self, objects: ObjectStore) -> BlockFiles:
        return BlockFiles(objects, self.settings)


def begin(
    objects: ObjectStore,
    wanted: QueueSettings,
    token: str,
    *,
    required: Collection[str] = (),
    idle: bool = False,
) -> Ticket:
    """Reserve the queue; `token` is the identity of this import. One that was broken off is taken over.

    A queue that exists keeps its settings; `required` names those that must be as `wanted` has them.
    """
    key = paths.queue(wanted.name)

    def decide(found: Object | None) -> Change[Ticket]:
        ticket = _ticket(objects, found, wanted, token, required, idle)
        return Change(queue_settings.encode(ticket.settings), ticket)

    busy = Conflict(f"queue {wanted.name} keeps changing: see who else imports into it")
    ticket = swap(objects, key, decide, busy=busy).result
    failpoint.reach("import.begun")
    _unpublish(objects, ticket)
    return ticket


def check_begin(
    objects: ObjectStore, wanted: QueueSettings, *, required: Collection[str] = (), idle: bool = False
) -> None:
    """Refuse what `begin` would refuse now, and change nothing."""
    try:
        found = objects.get(paths.queue(wanted.name))
    except NotFound:
        return
    _ticket(objects, found, wanted, "", required, idle)


def _ticket(
    objects: ObjectStore,
    found: Object | None,
    wanted: QueueSettings,
    token: str,
    required: Collection[str],
    idle: bool,
) -> Ticket:
    if found is None:
        return Ticket(replace(wanted, importing=Importing(token, new=True)))
    there = queue_settings.decode(found.data, paths.queue(wanted.name))
    if there.deleted is not None:
        raise Conflict(
            f"{deletion.describe_deletion(there)}; import under another name, or create the queue first"
        )
    _check_same(there, wanted, required)
    return _take_over(objects, there, token) or _begin_in(objects, there, token, idle)


def _check_same(there: QueueSettings, wanted: QueueSettings, required: Collection[str]) -> None:
    for name in sorted(required):
        if getattr(there, name) != getattr(wanted, name):
            raise Conflict(
                f"queue {there.name} exists with {name}={getattr(there, name)}: import with that, or choose "
                f"another name"
            )


def _take_over(objects: ObjectStore, there: QueueSettings, token: str) -> Ticket | None:
    if there.importing is None:
        return None
    previous = there.importing.previous
    before = None if previous is None else BlockFiles(objects, there).find(previous, "final")
    return Ticket(replace(there, importing=replace(there.importing, by=token)), before)


def _begin_in(objects: ObjectStore, there: QueueSettings, token: str, idle: bool) -> Ticket:
    if not idle:
        raise Conflict(
            f"queue {there.name} exists: choose another name, or stop the servers that have it, after they have "
            f"sealed what their journals hold, and say that it is idle (--idle)"
        )
    owner = _owner(objects, there.name)
    if owner is not None:
        raise Conflict(
            f"queue {there.name} belongs to node {owner}, which is running: stop that node, or choose another name"
        )
    known = load.load(BlockFiles(objects, there)).blocks
    if known.young:
        raise Conflict(
            f"queue {there.name} has young blocks: merge them first, by `jjq pipeline compact --all`"
        )
    after = paths.data_before(there.name, known.next_offset)
    if next(objects.list(paths.data_folder(there.name), after), None) is not None:
        raise Conflict(
            f"queue {there.name} has a block that a server began to write and did not finish: start that server, and "
            f"stop it when the block is there"
        )
    last = known.last
    mark = Importing(token, known.next_offset, None if last is None else last.first)
    return Ticket(replace(there, importing=mark), last)


def _owner(objects: ObjectStore, name: str) -> str | None:
    """The node that owns the queue, if it is in the cluster."""
    key = paths.shards(name)
    try:
        fields = sealed_json.unseal(objects.get(key).data, key, _SHARDS_FORMAT)
        owner = paths.check_name(fields.get("owner", ""), "node")
        objects.head(paths.node(owner))
    except NotFound:
        return None
    return owner


def check(objects: ObjectStore, ticket: Ticket) -> str:
    """The etag of `queue.json` if the import is still ours, else `Conflict`."""
    key = paths.queue(ticket.settings.name)
    try:
        found = objects.get(key)
    except NotFound:
        found = None
    if found is None or queue_settings.decode(found.data, key).importing != ticket.importing:
        raise Conflict(f"another import took queue {ticket.settings.name} over: this one has shown nothing")
    return found.etag


def stage(objects: ObjectStore, ticket: Ticket, draft: Draft) -> Staged:
    """Put a data file where nobody looks; not again if it is there."""
    encoded = encode.encode(draft.table, ticket.settings)
    staged = Staged(
        draft.first,
        draft.next - 1,
        draft.min_timestamp_us,
        draft.max_timestamp_us,
        encoded.size,
        draft.raw_bytes,
        encoded.sha256,
    )
    key = ticket.files(objects).key(staged.path)
    try:
        objects.put_if_absent(key, encoded)
    except Conflict:
        if objects.head(key).size != staged.stored_bytes:  # torn; publish reads and digests it
            objects.put(key, encoded)
    failpoint.reach("import.staged")
    return staged


def chain_blocks(ticket: Ticket, staged: Iterable[Staged], put_id: str) -> list[BlockMetadata]:
    """The final blocks that staged files become, in order of their offsets."""
    before = ticket.before
    epoch = 0 if before is None else before.epoch
    blocks: list[BlockMetadata] = []
    for part in sorted(staged):
        chain = metadata.genesis(ticket.settings.id) if before is None else before.chain or ""
        before = BlockMetadata(
            queue=ticket.settings.id,
            kind="final",
            path=paths.data_path(part.first),
            previous=None if before is None else before.first,
            epoch=epoch,
            put_id=put_id,
            chain=metadata.link(chain, part.first, part.last, part.sha256),
            **part._asdict(),
        )
        blocks.append(before)
    return blocks


def publish(
    objects: ObjectStore,
    ticket: Ticket,
    run: Sequence[BlockMetadata],
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Put data and metadata of a run of blocks to their places; all before it are there. May be repeated."""
    files = ticket.files(objects)
    for block in run:
        check(objects, ticket)
        staged = files.key(paths.young_path(block.first, block.sha256[:_TAG_CHARS]))
        try:
            fetched = fetch(objects, staged, block.stored_bytes)
        except NotFound:
            raise DataLoss(f"{staged} is gone: run the import again", key=staged, block=block.first) from None
        check_digest(fetched, block, staged)
        _ensure(objects, files.key(block.path), memoryview(fetched.data))
        failpoint.reach("import.data_put")
        _ensure(objects, paths.meta(files.name, block.first, "final"), memoryview(metadata.encode(block)))
        failpoint.reach("import.metadata_put")
        tick()


def _ensure(objects: ObjectStore, key: str, data: memoryview) -> None:
    """Make the object at `key` have these bytes. What another writer left there is replaced: the import is ours."""

    def decide(found: Object | None) -> Change[None]:
        same = found is not None and memoryview(found.data) == data
        return Change(None if same else data, None)

    busy = Conflict(f"{key} keeps changing: see who else imports into this queue")
    swap(objects, key, decide, busy=busy, expect_none=True)


def show(objects: ObjectStore, ticket: Ticket, published: Sequence[BlockMetadata]) -> None:
    """The commit point: from here on the queue has all of these blocks. Every link of its chain is proven first."""
    files = ticket.files(objects)
    known = load.load(files).blocks
    tip, last = (published[-1] if published else ticket.before), known.last
    if (last and last.chain) != (tip and tip.chain):
        raise Conflict(f"queue {files.name} does not end where the import does: run it again")
    for run in rollups.runs(known.final_count):
        rollups.write(objects, ticket.settings, known, run)
    failpoint.reach("import.rolled_up")
    etag = check(objects, ticket)
    objects.put_if_match(
        paths.queue(files.name), queue_settings.encode(replace(ticket.settings, importing=None)), etag
    )
    failpoint.reach("import.shown")


def forget(objects: ObjectStore, ticket: Ticket) -> None:
    """Delete staged files; all of them are published, or abandoned."""
    for info in list(objects.list(paths.young_folder(ticket.settings.name))):
        first = paths.young_first(info.key)
        if first is not None and first >= ticket.first:
            objects.delete(info.key)


def abandon(objects: ObjectStore, ticket: Ticket) -> None:
    """Leave the queue as it was before; a new one disappears."""
    etag = check(objects, ticket)
    _unpublish(objects, ticket)
    forget(objects, ticket)
    key = paths.queue(ticket.settings.name)
    if ticket.importing.new:
        objects.delete(key)
    else:
        objects.put_if_match(key, queue_settings.encode(replace(ticket.settings, importing=None)), etag)


def _unpublish(objects: ObjectStore, ticket: Ticket) -> None:
    """Remove what was published and never shown; last first, so that `data/` stays a prefix."""
    name, first = ticket.settings.name, ticket.first
    for info in list(objects.list(paths.rollup_folder(name))):
        rollup = paths.parse_rollup(info.key)
        if rollup is not None and rollup.next > first:
            objects.delete(info.key)
    for folder, first_of in (
        (paths.meta_folder(name), _meta_first),
        (paths.data_folder(name), paths.data_first),
    ):
        listed = [info.key for info in objects.list(folder)]
        for key in reversed(listed):
            at = first_of(key)
            if at is not None and at >= first:
                objects.delete(key)


def _meta_first(key: str) -> int | None:
    """Only of final blocks: an import makes no others."""
    found = paths.parse_meta(key)
    return found.first if found is not None and found.kind == "final" else None
