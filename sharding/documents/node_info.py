"""A node's own document: its address, its load, and that it is alive.

cluster/nodes/<id>.json, written only by the node, by compare-and-swap, every few seconds

{"address":"10.0.0.7:7575",    where the others, and clients that follow hints, reach it
 "beat":1234,                  counts up; a node that changes its document is alive
 "check":"<hex>",              see coldstore.layout.sealed_json
 "draining":false,             it is being emptied: no new queues go there
 "format":1,
 "incarnation":"<32 hex>",     one run of the process; another one means that the node was restarted
 "journal":"s3",               disk | s3: whether others can take over what it has acknowledged
 "load":[0,0.0,0,1],           bytes of history, elements a second, bytes of memory, shards
 "node":"node-1",
 "uptime":86400,               seconds that it runs, by its own clock
 "version":"1.0.0"}            of jjq

The document has no time in it: clocks of different machines need not agree. Nodes of earlier releases also write
"wire", a port for pushes of other nodes; nobody asks for it any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coldstore.layout import paths, sealed_json
from coldstore.shared.errors import DataLoss
from sharding.documents.load import Load
from sharding.documents.tenure import JournalKind

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Node:
    """What a node says of itself."""

    id: str
    address: str
    incarnation: str
    journal: JournalKind = "disk"
    beat: int = 0
    draining: bool = False
    load: Load = Load(count=0)  # noqa: RUF009 - it is frozen
    version: str = ""  # of jjq; nodes of earlier releases do not tell
    uptime_seconds: float = 0.0


def encode(node: Node) -> bytes:
    load = node.load
    return sealed_json.seal(
        {
            "address": node.address,
            "beat": node.beat,
            "draining": node.draining,
            "incarnation": node.incarnation,
            "journal": node.journal,
            "load": [load.bytes, load.traffic, load.memory, load.count],
            "node": node.id,
            "uptime": round(node.uptime_seconds),
            "version": node.version,
        },
        FORMAT,
    )


def decode(data: bytes, key: str) -> Node:
    """The node, or `DataLoss` naming the key."""
    fields = sealed_json.unseal(data, key, FORMAT)
    try:
        load = fields["load"]
        found = Node(
            id=fields["node"],
            address=fields["address"],
            incarnation=fields["incarnation"],
            journal="s3" if fields["journal"] == "s3" else "disk",
            beat=fields["beat"],
            draining=fields["draining"],
            load=Load(load[0], load[1], load[2], load[3]),
            version=fields.get("version", ""),  # nodes of earlier releases have none, nor the next
            uptime_seconds=fields.get("uptime", 0),
        )
    except (KeyError, TypeError, IndexError):
        found = None
    if found is None or found.id != paths.node_id(key):
        raise DataLoss(f"{key} is not the document of a node; delete it, nodes write theirs again", key=key)
    return found
