"""The servers under test, one or several; nemeses and runs see only this.

Before each node stands a proxy through which clients come. Among several there is one more for each
ordered pair, so that a link can fail in one direction, between two nodes and nowhere else: a node
advertises the address of the proxy for clients, which it has in every hint, and each other node is told
(`launch`, by JJQ_TEST_WAYS) to reach that address, and the one for pushes of other nodes, by proxies of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from coldstore.objects.port import ObjectStore
from sharding.documents import shards, tenure
from sharding.documents.tenure import Tenure
from tests.faults.links import Link, Links
from tests.faults.node import Node
from tests.servers.faultproxy import FaultProxy

ZOMBIE_SECONDS = 45.0  # until a process whose tenure is over has noticed, once everything is healed


class Cluster:
    """All nodes, and the object storage they share; closed whatever happens."""

    def __init__(
        self, nodes: list[Node], history: Path | None = None, objects: ObjectStore | None = None, prefix: str = ""
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.prefix = prefix  # of the store in its bucket, as proxies see keys
        self.objects = objects  # past the proxies
        self._links = Links()
        self.links = [self._links.add(node.listens, node.http) for node in nodes]
        for node, link in zip(nodes, self.links, strict=True):
            node.tell_http(link.addresses[1])
        self.between: dict[tuple[str, str], Link] = {
            (source.name, target.name): self._links.add(target.listens, target.http)
            for source in nodes
            for target in nodes
            if source is not target
        }
        if len(nodes) > 1:
            assert history is not None
            for node, link in zip(nodes, self.links, strict=True):
                ways: dict[str, str] = {}
                for target, other in zip(nodes, self.links, strict=True):
                    if target is not node:
                        way = self.between[node.name, target.name].addresses
                        ways |= zip(other.addresses, way, strict=True)
                node.join(link.address, ways, history)

    @property
    def address(self) -> str:
        """Where clients go: through the proxies."""
        return ",".join(link.address for link in self.links)

    @property
    def http(self) -> str:
        """The same for HTTP and WebSockets."""
        return ",".join(link.addresses[1] for link in self.links)

    @property
    def direct(self) -> str:
        """Past the proxies."""
        return ",".join(node.listens for node in self.nodes)

    @property
    def s3(self) -> list[FaultProxy]:
        """The ways to object storage, of each node its own."""
        return [node.s3 for node in self.nodes if node.s3 is not None]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def owner(self, queue: str) -> Node | None:
        """The node that serves a queue, by its document."""
        found = None if self.objects is None else shards.read(self.objects, queue)
        return None if found is None else self.node(found.shards.owner)

    def tenure(self, node: Node) -> Tenure:
        assert self.objects is not None
        found = tenure.read(self.objects, node.name)
        assert found is not None
        return found.tenure

    def is_zombie(self, node: Node) -> bool:
        """Whether it runs although its tenure is over."""
        return len(self.nodes) > 1 and node.is_alive() and self.tenure(node).state != "open"

    def ensure_up(self) -> None:
        """Start what has ended."""
        for node in self.nodes:
            node.signal(signal.SIGCONT)
        dead = [node for node in self.nodes if not node.is_alive()]
        for node in dead:
            node.launch()
        for node in dead:
            node.await_listening()

    def settle(self) -> None:
        """Everything is healed: let those that were taken over find out, and start them again."""
        for node in self.nodes:
            if self.is_zombie(node):
                assert node.wait_dead(ZOMBIE_SECONDS), f"{node.name} does not notice that it was taken over"
        self.ensure_up()

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Start whoever ends by itself meanwhile, as a supervisor does: a machine that stands still may end them."""
        done = threading.Event()

        def supervise() -> None:
            while not done.wait(0.2):
                for node in self.nodes:
                    if not node.is_alive():
                        node.launch()

        thread = threading.Thread(target=supervise, daemon=True)
        if len(self.nodes) > 1:
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.is_alive():
                thread.join()

    def restart(self) -> None:
        """Kill them all, then start them all."""
        for node in self.nodes:
            node.kill()
        self.ensure_up()

    def stop(self) -> list[str]:
        """Stop those that run; what is wrong with how they ended."""
        alive = [node for node in self.nodes if node.is_alive() and not self.is_zombie(node)]
        for node in alive:
            node.signal(signal.SIGTERM)
        codes = {node: node.wait_stopped() for node in alive}
        return [f"a server ended with {code} when it was stopped" for code in codes.values() if code]

    def __enter__(self) -> Self:
        self.ensure_up()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        self._links.close()
        for node in self.nodes:
            if node.shim is not None:
                node.shim.close()
