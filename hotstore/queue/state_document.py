"""The state document of a queue: its subscribers and producers at the moment when a journal let go of it.

queues/<name>/state/<epoch:020d>-<digest>.json

{"last":1767225600000000,   timestamp of the last element
 "next":4096,               the first offset that was not acknowledged
 "producers":[["p1",[[sequence,first,count,timestamp],…]],…],
 "subscribers":[["billing","beginning",false,created,previous,offset,asleep],…]}

Named by the epoch that it begins and by the first half of the sha256 of its bytes, so a name is put
once, by any node, and never changed. The shards document of the queue says which one counts; if a single-node
server deleted the queue, its `queue.json` does. Not a sealed document (coldstore.layout.sealed_json), since those are
small; the name proves the content.
"""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from coldstore.layout import paths
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import Conflict, DataLoss, NotFound
from hotstore.queue.owners import QueueState

_DIGEST_CHARS: Final = 32


def put(objects: ObjectStore, queue: str, epoch: int, state: QueueState) -> str:
    """Write the document with which `epoch` begins; returns its name."""
    fields = {
        "last": state.last_us,
        "next": state.next,
        "producers": state.producers,
        "subscribers": state.subscribers,
    }
    data = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    name = f"{epoch:020d}-{_digest(data)}.json"
    try:
        objects.put_if_absent(paths.state(queue, name), data)
    except Conflict:
        read(objects, queue, name)
    return name


def read(objects: ObjectStore, queue: str, name: str | None) -> QueueState:
    """The state of that name; empty if there is none to read."""
    if name is None:
        return QueueState()
    key = paths.state(queue, name)
    try:
        data = objects.get(key).data
    except NotFound:
        raise DataLoss(f"{key} is missing: it holds the queue's subscribers; restore it", key=key) from None
    if name.partition("-")[2] != f"{_digest(data)}.json":
        raise DataLoss(f"{key} is damaged: its bytes do not match its name; restore it", key=key)
    fields = orjson.loads(data)
    return QueueState(fields["next"], fields["last"], fields["subscribers"], fields["producers"])


def load(objects: ObjectStore, settings: QueueSettings, claimed: QueueState) -> QueueState:
    """The state with which a queue begins: that of its claim, else the one that a deletion kept."""
    return claimed if claimed != QueueState() else read(objects, settings.name, settings.state)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]
