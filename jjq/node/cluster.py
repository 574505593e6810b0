"""How a node takes part in a cluster: the router over its store, the list of nodes, the operator.

ClusterMembership(…)   makes them. A server may listen now, and pass requests to `router`
start(address)         writes where this node listens, so that the other nodes learn of it
close()                takes this node off the list. Before the server stops, so that nobody is sent here
hang_up()              closes the connections to other nodes. After the server has stopped
"""

from __future__ import annotations

import socket
from dataclasses import replace

from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from hotstore.engine import Engine
from hotstore.read.status import installed_version
from hotstore.runner import ThreadRunner
from jjq.access.keyring import Keyring
from jjq.addresses import split_address
from jjq.limits import OPERATOR_SECONDS, PEER_SECONDS
from jjq.node.node import ClusterSettings
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.peer_store import PeerStore
from jjq.remote.settings import RemoteSettings
from jjq.server.operator import OperatorVerbs
from jjq.wire.services import PEER, PEER_OPERATOR
from sharding.documents.node_info import Node
from sharding.operate.operator import ClusterOperator, NodeOperator
from sharding.ports import Ownership
from sharding.routing.nodes import Nodes
from sharding.routing.router import Router
from sharding.routing.traffic import Loads, Traffic

_ANY = {"0.0.0.0", "::"}


class ClusterMembership:
    """See the module's docstring."""

    def __init__(
        self,
        engine: Engine,
        ownership: Ownership,
        objects: ObjectStore,
        settings: ClusterSettings,
        clock: Clock,
        chance: Chance,
        keys: Keyring | None = None,
    ) -> None:
        self._keys = keys
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._runner = ThreadRunner("jjq-nodes", 4, urgent=True)
        self._operators: dict[str, RemoteOperator] = {}
        self.joined = False
        traffic = Traffic(clock)
        loads = Loads(engine, traffic)
        me = Node(ownership.node, "", chance.token(), settings.journal, version=installed_version())
        self.nodes = Nodes(objects, me, clock, self._runner, loads.total, settings.nodes)
        self.router = Router(engine.store, ownership, self.nodes, self._peer, clock, traffic)
        local = NodeOperator(ownership, self.nodes, loads)
        self.operations = ClusterOperator(local, ownership, self.nodes, self.router, self._operator)
        self.operator = OperatorVerbs(self.operations, local)

    def _peer(self, address: str) -> PeerStore:
        settings = RemoteSettings(
            PEER_SECONDS,
            self._settings.tls,
            direct=False,
            patient=False,
            service=PEER,
            key=self._key,
            transport="auto",
        )
        return PeerStore(address, settings, self._clock, self._chance)

    @property
    def _key(self) -> str | None:
        """What nodes show each other."""
        return None if self._keys is None else self._keys.peer

    def _operator(self, address: str) -> RemoteOperator:
        found = self._operators.get(address)
        if found is None:
            settings = RemoteSettings(
                OPERATOR_SECONDS,
                self._settings.tls,
                direct=False,
                patient=False,
                service=PEER_OPERATOR,
                key=self._key,
            )
            found = RemoteOperator(address, settings, clock=self._clock, chance=self._chance)
            self._operators[address] = found
        return found

    async def start(self, listens: str) -> None:
        """Join the cluster, now that the server knows where it listens."""
        address = self._settings.advertise or _reachable(listens)
        self.nodes.me = replace(self.nodes.me, address=address)
        await self.nodes.start()
        self.joined = True

    async def close(self) -> None:
        """Leave the list of nodes. Call it before the server stops, so that nobody is sent here any more."""
        await self.nodes.close()

    async def hang_up(self) -> None:
        """Close the connections to the other nodes. Call it after the server has stopped."""
        await self.router.close()
        for operator in self._operators.values():
            await operator.close()
        self._runner.close()


def _reachable(listens: str) -> str:
    """The address at which other machines reach a server that listens on `listens`, as well as we can guess."""
    host, port = split_address(listens, "listen")
    return f"{socket.gethostname()}:{port}" if host in _ANY else listens
