"""From a plan to servers: one with its disk, or several that share object storage, each by a way of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.cluster import Cluster
from tests.faults.nemeses.all import NEMESES
from tests.faults.node import Node
from tests.faults.plan import Plan
from tests.faults.shim import Shim
from tests.servers.faultproxy import FaultProxy, running_proxy
from tests.servers.s3 import S3Server


class Building:
    """Makes the nodes of a run in its folder, under `node/`."""

    def __init__(self, plan: Plan, folder: Path, s3: S3Server | None) -> None:
        assert s3 is not None or plan.cold != "s3", "this plan needs an S3 server"
        assert plan.cold == "s3" or plan.nodes == 1, "nodes share object storage"
        self._plan = plan
        self._folder = folder
        self._s3 = s3 if plan.cold == "s3" else None
        self._prefix = f"{folder.name}-{plan.seed}-{id(self)}"

    @property
    def cold_url(self) -> str:
        if self._s3 is None:
            return str(self._folder / "node" / "data" / "cold")
        return f"s3://{self._s3.bucket}/{self._prefix}"

    @contextmanager
    def cluster(self, history: Path) -> Iterator[Cluster]:
        """The servers, running; stopped in the end."""
        with ExitStack() as stack:
            nodes = []
            for name in self._plan.names:
                proxy = stack.enter_context(running_proxy(self._s3.endpoint)) if self._s3 else None
                nodes.append(self._node(name, proxy))
            objects = self._s3.objects(self._prefix) if self._s3 else None
            yield stack.enter_context(Cluster(nodes, history, objects, self._prefix))

    def _node(self, name: str, proxy: FaultProxy | None) -> Node:
        plan = self._plan
        folder = self._folder / "node" / ("" if plan.nodes == 1 else name)
        shim = None
        if any(NEMESES[kind].shim for kind in plan.kinds):
            shim = Shim(self._folder / "shim", folder / "data", undo=plan.undo)
        flags: tuple[str, ...] = ("--grace-seconds", "2")
        environment = {}
        if proxy is not None and self._s3 is not None:
            flags += (
                "--cold",
                self.cold_url,
                "--s3-endpoint",
                proxy.endpoint,
                "--s3-region",
                self._s3.region,
            )
            environment = {"JJQ_S3_ACCESS_KEY": self._s3.access_key, "JJQ_S3_SECRET_KEY": self._s3.secret_key}
        if plan.nodes > 1:
            flags += ("--journal", plan.journal, "--lease-seconds", f"{plan.lease:g}")
        return Node(
            folder, name=name, shim=shim, flags=flags, bug=plan.bug, environment=environment, s3=proxy
        )
