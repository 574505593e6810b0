"""Servers without a name, as processes over one store: a folder, and a real S3 server."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.objects.local import LocalObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, JjqError
from sharding.documents import tenure
from tests.faults.checker.judge import judge
from tests.faults.history import Recorder, events, open_history, type_of_error
from tests.faults.table import build
from tests.faults.values import WORKER, make_value, read_value
from tests.servers.faultproxy import FaultProxy
from tests.servers.jjq_server import JjqServer, clean_environment
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

QUICK = ("--lease-seconds", "1", "--grace-seconds", "1")

pytestmark = pytest.mark.xdist_group("sharding-processes")


class Store:
    """A store, and the servers that are told to use it."""

    def __init__(self, folder: Path, url: str, objects: ObjectStore, s3: S3Server | None = None) -> None:
        self.folder, self.url, self.objects, self.s3 = folder, url, objects, s3
        self.environment: dict[str, str] = {}
        if s3 is not None:
            self.environment = {
                "JJQ_S3_ENDPOINT": s3.endpoint,
                "JJQ_S3_ACCESS_KEY": s3.access_key,
                "JJQ_S3_SECRET_KEY": s3.secret_key,
            }

    def server(self, name: str, *flags: str, **environment: str) -> JjqServer:
        keys = {**self.environment, **environment}
        return JjqServer(self.folder / name, "--cold", self.url, *QUICK, *flags, environment=keys)

    def refused(self, name: str, *flags: str) -> str:
        """What a server says that must not start; one line, and exit code 5."""
        server = self.server(name, *flags)
        server.launch()
        assert server.process.wait(60) == 5, server.log.read_text()
        return server.log.read_text().splitlines()[-1]

    def release(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jjq", "release", "--cold", self.url, *flags],
            capture_output=True, text=True, timeout=120, check=False, env=clean_environment(**self.environment),
        )  # fmt: skip

    def beat(self) -> int:
        found = tenure.read(self.objects, "_lone")
        return -1 if found is None else found.tenure.beat


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return (
        in_folder(tmp_path)
        if request.param == "folder"
        else on_s3(tmp_path, request.getfixturevalue("seaweed"))
    )


def in_folder(folder: Path) -> Store:
    return Store(folder, str(folder / "cold"), LocalObjects(folder / "cold"))


def on_s3(folder: Path, s3: S3Server) -> Store:
    prefix = f"t-{SystemChance().token()}"
    return Store(folder, f"s3://{s3.bucket}/{prefix}", s3.objects(prefix), s3)


class History:
    """Pushes, and what became of them, for the judge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock = SystemClock()
        self._pens: dict[str, Recorder] = {}
        self._numbers: dict[str, int] = {}

    def _pen(self, server: JjqServer) -> tuple[Recorder, int]:
        name = server.folder.name
        if name not in self._pens:
            worker = len(self._pens) + 1
            file = open_history(self.folder, name)
            self._pens[name] = Recorder(file, worker, lambda: round(self._clock.monotonic() * 1e9))
            self._numbers[name] = worker * WORKER
        self._numbers[name] += 1
        return self._pens[name], self._numbers[name]

    def push(self, server: JjqServer, count: int = 1, timeout: float = 5.0) -> int:
        """Push so many values, one by one; how many were acknowledged."""
        acknowledged = 0
        with jjq.connect(server.address, timeout=timeout) as client:
            for _ in range(count):
                pen, number = self._pen(server)
                op = pen.invoke("push", "orders", values=[number])
                try:
                    op.ok(offset=client.push("orders", [make_value(number, 64)]).first_offset)
                    acknowledged += 1
                except JjqError as error:
                    op.end(type_of_error(error), error.code)
                    break
        return acknowledged

    def judge(self, server: JjqServer) -> list[Any]:
        """What does not hold, when all is read from this server in the end."""
        pen, _ = self._pen(server)
        op = pen.invoke("final", "orders", position=0)
        with jjq.connect(server.address) as client:
            there = list(client.replay("orders").elements())
        values = [read_value(each.value) for each in there]
        assert [each.offset for each in there] == list(range(len(there)))
        op.ok(position=0, next=len(there), values=values, end=True)
        return judge(build(events(self.folder)))


def create(server: JjqServer) -> None:
    with jjq.connect(server.address) as client:
        client.create_queue("orders", block_bytes=64 * 1024, block_seconds=1)


def test_two_servers_on_one_store_and_nothing_acknowledged_is_lost(store: Store, tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    with store.server("a") as a:
        create(a)
        assert history.push(a, 20) == 20
        said = store.refused("b")
        assert said.startswith("jjq: this store is in use by process ")
        assert f"process {a.process.pid} on " in said
        assert str(a.data) in said
        assert "stop it, or use another store" in said
        assert history.push(a, 20) == 20
        a.restart()  # kill -9: at once, whatever the lease
        assert history.push(a, 20) == 20
        a.kill()
        assert "in use by" in store.refused("b"), "it is dead, and its disk has what the store has not"
        a.start()
        assert history.push(a, 5) == 5
        assert not history.judge(a)


def test_a_server_that_was_stopped_for_a_while_and_given_up(store: Store, tmp_path: Path) -> None:
    """SIGSTOP, an operator who accepts the loss, SIGCONT: from then on the first acknowledges nothing."""
    history = History(tmp_path / "history")
    a, b = store.server("a", "--seal-on-close"), store.server("b")
    with a:
        create(a)
        assert history.push(a, 20) == 20
        alive = store.release("--accept-loss")
        assert (alive.returncode, "it is alive: stop it first" in alive.stderr) == (5, True)
        assert a.stop() == 0  # all that it acknowledged is in the store now
        a.start()
        a.process.send_signal(signal.SIGSTOP)
        shown = store.release()
        assert shown.returncode == 0
        assert str(a.data) in "".join(shown.stdout.split("\n"))
        assert "nothing was changed" in shown.stderr
        assert "in use by" in store.refused("b")
        assert store.release("--accept-loss").returncode == 0
        with b:
            # The first may have acknowledged more. Somebody must accept that for each queue.
            assert history.push(b) == 0
            with jjq.connect(b.address) as client:
                client.accept_loss("orders")
            assert history.push(b, 10) == 10
            a.process.send_signal(signal.SIGCONT)
            assert history.push(a, 5, timeout=3.0) == 0
            assert a.process.wait(60) == 1
            assert "this server lost its store" in a.log.read_text()
            assert history.push(b, 10) == 10
            assert not history.judge(b)
            assert str(b.data) in store.refused("a")


def test_a_server_with_a_name_and_one_without_do_not_share_a_store(tmp_path: Path) -> None:
    store = in_folder(tmp_path)
    with store.server("a") as a:
        assert "--node name" in store.refused("n1", "--node", "n1")
        assert a.stop() == 0
    with store.server("n2", "--node", "n2"):
        said = store.refused("b")
    assert "served by nodes (n2)" in said
    assert "--node" in said


def test_the_store_is_away_and_a_lone_server_goes_on(
    tmp_path: Path, seaweed: S3Server, proxy: FaultProxy
) -> None:
    store, history = on_s3(tmp_path, seaweed), History(tmp_path / "history")
    with store.server("a", JJQ_S3_ENDPOINT=proxy.endpoint) as a:
        create(a)
        assert history.push(a, 5) == 5
        with proxy.outage():
            clock = SystemClock()
            until = clock.monotonic() + 2 * 3.0  # two of its leases
            while clock.monotonic() < until:
                assert history.push(a, 5) == 5
        before = store.beat()
        wait_until(lambda: store.beat() > before, "it beats again", 60)
        assert "in use by" in store.refused("b")
        assert history.push(a, 5) == 5
        assert not history.judge(a)


@pytest.mark.parametrize("kind", ["folder", "moto"])
def test_two_embedded_stores_on_one_cold_store(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    more: dict[str, Any] = {"cold": str(tmp_path / "cold")}
    if kind == "moto":
        moto: S3Server = request.getfixturevalue("moto")
        more = {"cold": f"s3://{moto.bucket}/t-{SystemChance().token()}", "s3": moto.settings()}
    sealing = jjq.HotSettings(seal_on_close=True)
    with jjq.open(tmp_path / "a", **more) as first:
        first.create_queue("orders")
        first.push("orders", [b"0"])
        with pytest.raises(Conflict, match=f"in use by process .*{tmp_path / 'a'}"):
            jjq.open(tmp_path / "b", **more)
        assert first.push("orders", [b"1"]).first_offset == 1
    with pytest.raises(Conflict, match="seal-on-close"):
        jjq.open(tmp_path / "b", **more)
    with jjq.open(tmp_path / "a", settings=sealing, **more) as again:
        assert again.get_queue("orders").next_offset == 2
    with jjq.open(tmp_path / "b", **more) as other:
        assert other.push("orders", [b"2"]).first_offset == 2
        assert [e.value for e in other.replay("orders").elements()] == [b"0", b"1", b"2"]


def test_reading_needs_no_claim(tmp_path: Path) -> None:
    with jjq.open(tmp_path / "a", settings=jjq.HotSettings(seal_on_close=True)) as first:
        first.create_queue("orders")
        first.push("orders", [b"0"])
    verify: Callable[[], int] = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "jjq", "verify", "--cold", str(tmp_path / "a" / "cold")],
        capture_output=True, timeout=60, check=False, env=clean_environment(),
    ).returncode  # fmt: skip
    before = sorted(path for path in (tmp_path / "a" / "cold").rglob("*"))
    assert verify() == 0
    assert sorted(path for path in (tmp_path / "a" / "cold").rglob("*")) == before
    with jjq.open(tmp_path / "a"):
        assert verify() == 0
