"""Object keys of a store. Only this module builds and parses them.

    jjq.json                                             format version, store id
    queues/<name>/queue.json                             id, settings, created
    queues/<name>/data/<first:020d>.parquet              final blocks, and nothing else
    queues/<name>/young/<first:020d>-<tag>.parquet       young blocks: small, merged and swept later
    queues/<name>/meta/<first:020d>.<final|young>.json   block metadata: its put-if-absent commits
    queues/<name>/index/<first:020d>-<next:020d>.arrow   roll-up of the final blocks first..next
    queues/<name>/quarantine/<file>.<digest>             files of data/ that no metadata named
    queues/<name>/state/<what>                           snapshots, so that a queue can move
    queues/<name>/objects/<sha256>                       large objects, named by what they hold: written once
    queues/<name>/uploads/<sha256>.json                  an object that no element may name yet (coldstore/large/)
    queues/<name>/shards.json                            owner, epoch, block ranges (compare-and-swap)
    cluster/nodes/<id>.json                              node address, heartbeat, load
    cluster/tenures/<id>.json                            a node's run and its journal (compare-and-swap)
    cluster/tenures/_lone.json                           the same of a server that is alone: it has the store
    journals/<node>/<seq:020d>                           journal on object storage
    checkpoints/<node>/<name>                            checkpoints of such a journal (hotstore/checkpoint)
    checkpoints/<node>/quarantine/<name>                 those that were damaged
    journal.json, cluster/journals/<node>.json           how far a journal on a disk goes (server alone; node)
    access.json                                          keys, of which it has digests (compare-and-swap)
    deletions/<name>.json                                a queue that was deleted: its files are to be removed

A worker group's ledger is a queue named <queue>~<group>; its `groups/<next:020d>-<digest>.arrow` are snapshots of the
group's tasks as of the ledger's offset `next`.

Twenty digits hold every int64, so keys sort as offsets do. `final` sorts before `young`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from coldstore.shared import limits
from coldstore.shared.errors import InvalidInput

Kind = Literal["final", "young"]

STORE: Final = "jjq.json"
ACCESS: Final = "access.json"
TENURES: Final = "cluster/tenures/"
QUEUES: Final = "queues/"
NODES: Final = "cluster/nodes/"
# In place of a name: a server that is alone on its store; no node can have this name.
SINGLE_NODE: Final = "_lone"
DELETIONS: Final = "deletions/"

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.NAME_CHARS_MAX - 1}}}")
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=@+~-]*(?<!~)")  # what ends with ~ is an editor's copy
_DATA = re.compile(r"queues/[^/]+/data/(\d{20})\.parquet")
_YOUNG = re.compile(r"queues/[^/]+/young/(\d{20})-([0-9a-f]+)\.parquet")
_DATA_PATH = re.compile(r"data/(\d{20})\.parquet")
_YOUNG_PATH = re.compile(r"young/(\d{20})-[0-9a-f]+\.parquet")
_META = re.compile(r"queues/[^/]+/meta/(\d{20})\.(final|young)\.json")
_JOURNAL = re.compile(r"journals/[^/]+/(\d{20})")
_CHECKPOINT = re.compile(r"checkpoints/[^/]+/([^/]+)")
_TENURE = re.compile(r"cluster/tenures/(.+)\.json")
_QUARANTINED = re.compile(r"queues/[^/]+/quarantine/(\d{20})\.parquet\.[0-9a-f]+")
_ROLLUP = re.compile(r"queues/[^/]+/index/(\d{20})-(\d{20})\.arrow")
_SNAPSHOT = re.compile(r"queues/[^/]+/groups/(\d{20})-([0-9a-f]{32})\.arrow")
_UPLOAD = re.compile(r"queues/[^/]+/uploads/([0-9a-f]{64})\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DELETION = re.compile(r"deletions/(.+)\.json")
_NODE = re.compile(r"cluster/nodes/([^/]+)\.json")


class MetaKey(NamedTuple):
    """The fields of a metadata key."""

    first: int
    kind: Kind


class RollupKey(NamedTuple):
    """The fields of a roll-up key: it covers the final blocks from `first` up to `next`."""

    first: int
    next: int


def is_name(name: str) -> bool:
    """Whether `name` can be a name that a user chooses: of a queue, subscriber, group or node."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def is_queue_name(name: str) -> bool:
    """Whether `name` can be that of a queue or of a ledger, <queue>~<group>."""
    return all(map(is_name, name.split("~", 1)))


def ledger(queue: str, group: str) -> str:
    """The queue that keeps what happens in a group."""
    return f"{queue}~{group}"


def worked_queue(name: str) -> str:
    """The queue that a ledger is of; any other queue itself."""
    return name.partition("~")[0]


def ledger_parts(name: str) -> tuple[str, str] | None:
    """The queue and the group that a ledger is of; None for any other queue."""
    queue, tilde, group = name.partition("~")
    return (queue, group) if tilde else None


def check_name(name: str, what: str = "queue") -> str:
    """Return `name` if it can name a queue or subscriber. Then it is a safe folder name, too.

    A ledger's name is a valid queue name here. `check_new_queue` refuses it for queues that users create.
    """
    fits = is_queue_name if what == "queue" else is_name
    if not isinstance(name, str) or not fits(name):
        shown = repr(name) if len(str(name)) <= 40 else f"{str(name)[:40]!r}… ({len(str(name))} characters)"
        raise InvalidInput(
            f"{what} name {shown} is not allowed: use 1 to {limits.NAME_CHARS_MAX} letters, digits, '.', '_' "
            f"or '-', starting with a letter or digit, without '..'"
        )
    return name


def check_new_queue(name: str) -> str:
    """Return `name` if a user may create a queue of this name: the name of a ledger comes with its group."""
    check_name(name)
    if "~" in name:
        raise InvalidInput(
            f"queue name {name!r:.60} is not allowed: names with '~' belong to ledgers of groups; choose another"
        )
    return name


def check_key(key: str) -> str:
    """Return `key` if every store can hold it: no empty, hidden or upward segment, portable characters only."""
    if not key or len(key) > limits.KEY_CHARS_MAX or not all(_SEGMENT.fullmatch(s) for s in key.split("/")):
        raise InvalidInput(
            f"object key {key[:80]!r} is not allowed: use segments of letters, digits and ._=@+- joined by '/', "
            f"none starting with '.', at most {limits.KEY_CHARS_MAX} characters"
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if an allowed key can start with it. An empty prefix means everything."""
    if prefix:
        check_key(prefix if not prefix.endswith("/") else prefix[:-1])
    return prefix


def queue_folder(name: str) -> str:
    return f"{QUEUES}{check_name(name)}/"


def queue(name: str) -> str:
    return queue_folder(name) + "queue.json"


def queue_name(key: str) -> str | None:
    """The queue whose `queue.json` this key is, else None."""
    parts = key.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "queues" and parts[2] == "queue.json" else None


def data_folder(name: str) -> str:
    return queue_folder(name) + "data/"


def data(name: str, first: int) -> str:
    return queue_folder(name) + data_path(first)


def data_before(name: str, first: int) -> str:
    """A key that sorts just before the data of blocks from `first` on: list after it."""
    return f"{data_folder(name)}{first:020d}"


def data_path(first: int) -> str:
    """The data file of a final block relative to the queue's folder, as metadata names it."""
    return f"data/{first:020d}.parquet"


def data_first(key: str) -> int | None:
    match = _DATA.fullmatch(key)
    return int(match[1]) if match else None


def young_folder(name: str) -> str:
    return queue_folder(name) + "young/"


def young(name: str, first: int, tag: str) -> str:
    return queue_folder(name) + young_path(first, tag)


def young_path(first: int, tag: str) -> str:
    """The data file of a young block relative to the queue's folder, as metadata names it."""
    return f"young/{first:020d}-{tag}.parquet"


def file_first(path: str) -> int | None:
    """First offset in the data file that metadata names by this path; None if no data file has it."""
    match = _DATA_PATH.fullmatch(path) or _YOUNG_PATH.fullmatch(path)
    return int(match[1]) if match else None


def young_first(key: str) -> int | None:
    match = _YOUNG.fullmatch(key)
    return int(match[1]) if match else None


def meta_folder(name: str) -> str:
    return queue_folder(name) + "meta/"


def meta(name: str, first: int, kind: Kind) -> str:
    return f"{meta_folder(name)}{first:020d}.{kind}.json"


def meta_before(name: str, first: int) -> str:
    """A key that sorts just before all metadata of blocks from `first` on: list after it."""
    return f"{meta_folder(name)}{first:020d}"


def parse_meta(key: str) -> MetaKey | None:
    match = _META.fullmatch(key)
    return MetaKey(int(match[1]), "final" if match[2] == "final" else "young") if match else None


def rollup_folder(name: str) -> str:
    return queue_folder(name) + "index/"


def rollup(name: str, first: int, next: int) -> str:
    return f"{rollup_folder(name)}{first:020d}-{next:020d}.arrow"


def parse_rollup(key: str) -> RollupKey | None:
    match = _ROLLUP.fullmatch(key)
    return RollupKey(int(match[1]), int(match[2])) if match else None


def quarantine(name: str) -> str:
    return queue_folder(name) + "quarantine/"


def quarantined(name: str, key: str, digest: str) -> str:
    """Where the file `key` of `data/` is kept; the name does not end as engines expect a data file's to."""
    return f"{quarantine(name)}{key.removeprefix(data_folder(name))}.{digest}"


def quarantined_first(key: str) -> int | None:
    """The offset in the name of a file in quarantine; None if it had no block's name."""
    match = _QUARANTINED.fullmatch(key)
    return int(match[1]) if match else None


def snapshots(name: str) -> str:
    """The folder of the snapshots beside a ledger."""
    return queue_folder(name) + "groups/"


def snapshot(name: str, next_: int, digest: str) -> str:
    return f"{snapshots(name)}{next_:020d}-{digest}.arrow"


def parse_snapshot(key: str) -> tuple[int, str] | None:
    """The ledger's offset and the digest in the name of a snapshot; None if it is none."""
    match = _SNAPSHOT.fullmatch(key)
    return (int(match[1]), match[2]) if match else None


def check_sha256(sha256: str) -> str:
    """Return `sha256` if it can be the digest of an object, and so its name."""
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidInput(f"{str(sha256)[:80]!r} is not a sha256: use 64 lower-case hexadecimal digits")
    return sha256


def large_folder(name: str) -> str:
    return queue_folder(name) + "objects/"


def large(name: str, sha256: str) -> str:
    """The large object of these bytes."""
    return large_folder(name) + check_sha256(sha256)


def unnamed(name: str) -> str:
    """A large object whose digest is not known yet. Nothing is ever stored under this key."""
    return large_folder(name) + "unnamed"


def upload_folder(name: str) -> str:
    return queue_folder(name) + "uploads/"


def upload(name: str, sha256: str) -> str:
    """The note that an object is being uploaded, or was, and that no element may name it yet."""
    return f"{upload_folder(name)}{check_sha256(sha256)}.json"


def upload_sha256(key: str) -> str | None:
    """The digest of the object that this note is about, else None."""
    match = _UPLOAD.fullmatch(key)
    return match[1] if match else None


def state(name: str, what: str) -> str:
    return f"{queue_folder(name)}state/{what}"


def shards(name: str) -> str:
    """A ledger has the document of its queue: both are always of one node."""
    return queue_folder(worked_queue(name)) + "shards.json"


def node(node_id: str) -> str:
    return f"{NODES}{check_name(node_id, 'node')}.json"


def node_id(key: str) -> str | None:
    """The node whose document this key is, else None."""
    match = _NODE.fullmatch(key)
    return match[1] if match else None


def tenure(node_id: str) -> str:
    """The key of a node's tenure, or that of `SINGLE_NODE`."""
    return f"{TENURES}{node_id if node_id == SINGLE_NODE else check_name(node_id, 'node')}.json"


def tenure_node(key: str) -> str | None:
    """The node whose tenure this key is, else None."""
    match = _TENURE.fullmatch(key)
    return match[1] if match and is_name(match[1]) else None


def journal_folder(node_id: str) -> str:
    return f"journals/{check_name(node_id, 'node')}/"


def journal(node_id: str, sequence: int) -> str:
    return f"{journal_folder(node_id)}{sequence:020d}"


def checkpoint_folder(node_id: str) -> str:
    return f"checkpoints/{check_name(node_id, 'node')}/"


def checkpoint(node_id: str, name: str) -> str:
    return checkpoint_folder(node_id) + name


def checkpoint_quarantine(node_id: str, name: str) -> str:
    return f"{checkpoint_folder(node_id)}quarantine/{name}"


def checkpoint_name(key: str) -> str | None:
    """The name of the checkpoint at this key, else None."""
    match = _CHECKPOINT.fullmatch(key)
    return match[1] if match else None


def witness(node_id: str | None) -> str:
    """The document about the journal on the disk of a node; None: of a server that is alone."""
    return "journal.json" if node_id is None else f"cluster/journals/{check_name(node_id, 'node')}.json"


def journal_sequence(key: str) -> int | None:
    """The number of a journal object, else None."""
    match = _JOURNAL.fullmatch(key)
    return int(match[1]) if match else None


def deletion(name: str) -> str:
    return f"{DELETIONS}{check_name(name)}.json"


def deletion_queue(key: str) -> str | None:
    """The deleted queue that this note is about, else None."""
    match = _DELETION.fullmatch(key)
    return match[1] if match and is_queue_name(match[1]) else None
