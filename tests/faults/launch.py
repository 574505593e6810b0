"""`python -m tests.faults.launch serve …`: a server with small files and short ages, and maybe a mistake.

Journal segments of 256 KiB, checkpoints and merges every second: in a run of seconds everything happens
that takes a real server hours. `JJQ_TEST_BUG` names mistakes of `bugs` to be made, `JJQ_TEST_WAYS` says
how to reach the other nodes, `JJQ_TEST_WITNESS` where to write what `witness` sees. Nothing of this is
in the product: it is patched into this process before the command line runs.
"""

from __future__ import annotations

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from coldstore.shared.limits import KIB, MIB
from hotstore.settings import HotSettings
from tests.faults import bugs, witness

SMALL = {
    "segment_bytes": 256 * KIB,
    "group_bytes_max": 96 * KIB,
    "journal_bytes_max": 64 * MIB,
    "disk_free_bytes_min": 1 * MIB,
    "maintain_seconds": 0.1,
    "checkpoint_seconds": 1.0,
    "merge_seconds": 1.0,
    "sweep_seconds": 2.0,
}
PART_BYTES = 8 * KIB  # of a journal on object storage, so that several objects are in flight
TRIM_SECONDS = 1.0
TAKE_AGAIN_SECONDS = 2.0


def small(**given: object) -> HotSettings:
    """Settings that `HotSettings` would refuse as too small, set behind its back."""
    made = HotSettings()
    for name, value in {**given, **SMALL}.items():
        getattr(made, name)
        object.__setattr__(made, name, value)
    return made


def _again(settings: HotSettings, **changes: object) -> HotSettings:
    """As `dataclasses.replace`, which would check them."""
    return small(**{**{each.name: getattr(settings, each.name) for each in fields(settings)}, **changes})


def _hasten() -> None:
    """What a node among others does every now and then, it does all the time."""
    from sharding.journal import object_journal, objects
    from sharding.takeover import watch

    bugs.patch(objects, encode=partial(objects.encode, part_bytes=PART_BYTES))
    bugs.patch(object_journal, JOURNAL_TRIM_SECONDS=TRIM_SECONDS)
    bugs.patch(watch, TAKE_AGAIN_SECONDS=TAKE_AGAIN_SECONDS)


def _redirect(ways: dict[str, str]) -> None:
    """Go to the other nodes through proxies of our own."""
    from jjq.node.cluster import ClusterMembership
    from jjq.remote.socket_finder import SocketFinder

    peer, operator, connect = ClusterMembership._peer, ClusterMembership._operator, SocketFinder._connect

    def to_peer(cluster: Any, address: str) -> Any:
        return peer(cluster, ways.get(address, address))

    def to_operator(cluster: Any, address: str) -> Any:
        return operator(cluster, ways.get(address, address))

    async def to_socket(finder: Any, port: int, instance: str) -> None:
        way = ways.get(f"127.0.0.1:{port}", f"127.0.0.1:{port}")
        await connect(finder, int(way.rpartition(":")[2]), instance)

    bugs.patch(ClusterMembership, _peer=to_peer, _operator=to_operator)
    bugs.patch(SocketFinder, _connect=to_socket)


def _tell_http(port: int) -> None:
    """Clients and other nodes are told of this port: a proxy's."""
    from jjq.server.unary import Verbs
    from jjq.v1 import jjq_pb2 as pb

    async def told(verbs: Any, _request: object) -> pb.GetTransportsResponse:
        return pb.GetTransportsResponse(websocket_port=port, instance=verbs._transports().instance)

    bugs.patch(Verbs, _get_transports=told)


def main() -> None:
    import jjq.node.node
    import jjq.node.settings
    from jjq.cli import main as run

    bugs.patch(jjq.node.settings, HotSettings=small)
    bugs.patch(jjq.node.node, replace=_again)
    _hasten()
    if port := os.environ.get("JJQ_TEST_HTTP"):
        _tell_http(int(port))
    if ways := os.environ.get("JJQ_TEST_WAYS"):
        _redirect(orjson.loads(ways))
    if bug := os.environ.get("JJQ_TEST_BUG"):
        bugs.seed(bug)
    if path := os.environ.get("JJQ_TEST_WITNESS"):
        witness.watch(Path(path))
    run()


if __name__ == "__main__":
    main()
