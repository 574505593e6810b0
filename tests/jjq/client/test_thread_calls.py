"""A blocking client over WebSocket: push, pop and peek in the thread that calls, and nothing is different for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import NotFound, Unavailable
from jjq.access.keyring import Keyring
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.http.websocket.open_sockets import SocketLimits
from jjq.remote.settings import SocketPlace
from jjq.remote.socket_finder import SocketFinder
from jjq.remote.thread import thread_socket
from jjq.remote.thread.thread_socket import ThreadSocket
from jjq.server.server import serve
from jjq.server.settings import ServerSettings, Tls
from jjq.v1 import jjq_pb2 as pb
from tests.faults.links import Link, Links
from tests.jjq.fakestore import FakeStore
from tests.jjq.server.test_tls import Authority
from tests.servers.jjq_server import JjqServer, clean_environment, interruptible
from tests.servers.waiting import wait_until

HTTP = {"JJQ_HTTP_LISTEN": "127.0.0.1:0"}
THREADS = 8


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JjqServer]:
    with JjqServer(tmp_path_factory.mktemp("near"), environment=HTTP) as made:
        yield made


@pytest.fixture
def client(near: JjqServer) -> Iterator[jjq.Client]:
    with jjq.connect(near.address, transport="websocket") as made:
        yield made


def sockets(client: jjq.Client) -> int:
    """That threads of this client have open."""
    quick = client._quick_calls
    assert quick is not None
    return sum(not each.closed for each in list(quick._open))


def test_push_pop_and_peek_go_by_a_socket_of_the_thread(client: jjq.Client) -> None:
    client.create_queue("single")
    subscriber = client.create_subscriber("single", "s", "beginning")
    assert sockets(client) == 0
    for n in range(5):
        assert client.push("single", [b"%d" % n]).first_offset == n
    assert [e.value for e in client.peek(subscriber)] == [b"0"]
    assert [e.value for n in range(5) for e in client.pop(subscriber)] == [b"%d" % n for n in range(5)]
    assert client.pop(subscriber, wait=0.05) == []
    assert sockets(client) == 1
    for refused in (lambda: client.push("nowhere", [b"x"]), lambda: client.peek("nowhere/s")):
        with pytest.raises(NotFound, match="nowhere"):
            refused()
    client.push("single", [bytes(200_000)])
    assert client.push("single", [b"in order"], producer="p", sequence=0).first_offset == 6
    assert [len(e.value) for e in client.pop(subscriber, max=9)] == [200_000, 8]
    assert sockets(client) == 1


def test_many_threads_share_a_client(client: jjq.Client) -> None:
    client.create_queue("shared")
    subscriber = client.create_subscriber("shared", "s", "beginning")

    def work(number: int) -> list[bytes | str]:
        seen: list[bytes | str] = []
        for n in range(25):
            client.push("shared", [b"%d-%d" % (number, n)])
            seen += [e.value for e in client.pop(subscriber, max=2)]
        return seen

    with ThreadPoolExecutor(THREADS) as pool:
        popped = [value for seen in pool.map(work, range(THREADS)) for value in seen]
    popped += [e.value for e in client.pop(subscriber, max=1_000)]
    assert sorted(popped) == sorted(b"%d-%d" % (t, n) for t in range(THREADS) for n in range(25))


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    client: jjq.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("idle")
    client.push("idle", [b"0"])
    (first,) = list(client._quick_calls._open)  # type: ignore[union-attr]
    monkeypatch.setattr(thread_socket, "QUICK_IDLE_SECONDS", -1.0)
    assert client.push("idle", [b"1"]).first_offset == 1
    assert first.closed
    assert sockets(client) == 1


def test_a_server_that_stops_and_one_that_is_killed(tmp_path: Path) -> None:
    """All pushes are known, and the server need not wait for sockets that nobody uses."""
    with (
        JjqServer(tmp_path, environment=HTTP) as server,
        jjq.connect(server.address, transport="websocket", timeout=60.0) as client,
    ):
        client.create_queue("orders")
        subscriber = client.create_subscriber("orders", "s", "beginning")
        seen: list[bytes | str] = []
        for n in range(30):
            if n == 10:
                assert server.stop() == 0
                wait_until(lambda: sockets(client) == 0, "the sockets of threads are closed")
                server.start()
            if n == 20:
                server.restart()
            assert client.push("orders", [b"%d" % n]).first_offset == n
            seen += [e.value for e in client.pop(subscriber)]
        assert seen == [b"%d" % n for n in range(30)]


@pytest.fixture
def way(near: JjqServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Link]]:
    """All WebSockets go through a proxy."""
    links, connect, made = Links(), SocketFinder._connect, dict[int, Link]()

    async def through(finder: Any, port: int, instance: str) -> None:
        if port not in made:
            made[port] = await asyncio.to_thread(links.add, f"127.0.0.1:{port}")
        await connect(finder, int(made[port].address.rpartition(":")[2]), instance)

    monkeypatch.setattr(SocketFinder, "_connect", through)
    yield lambda: next(iter(made.values()))
    links.close()


def test_a_lost_answer(near: JjqServer, way: Callable[[], Link]) -> None:
    """A pop gives the same elements, a peek is made again, and of a push the outcome is unknown."""
    with jjq.connect(near.address, transport="websocket") as client, ThreadPoolExecutor(1) as pool:
        client.create_queue("lost")
        subscriber = client.create_subscriber("lost", "s", "beginning")
        client.push("lost", [b"%d" % n for n in range(4)])
        assert [e.value for e in client.pop(subscriber)] == [b"0"]
        link = way()
        (proxy,) = link._proxies

        def lose(call: Callable[[], Any]) -> Any:
            pool.submit(client.peek, subscriber).result()  # its thread has a socket
            link.set(swallow=True)
            passed = proxy.passed
            answer = pool.submit(call)
            wait_until(lambda: proxy.passed > passed, "the server has answered")
            link.heal()
            return answer.result()

        assert [e.value for e in lose(lambda: client.pop(subscriber))] == [b"1"]
        assert [e.value for e in lose(lambda: client.peek(subscriber))] == [b"2"]
        with pytest.raises(Unavailable, match="the outcome is unknown"):
            lose(lambda: client.push("lost", [b"4"]))
        assert [e.value for e in client.pop(subscriber, max=9)] == [b"2", b"3", b"4"]


CODE = """
import os, signal, sys, threading, time
import jjq
client = jjq.connect(sys.argv[1], transport="websocket")
client.create_queue("end")
subscriber = client.create_subscriber("end", "s", "beginning")
client.push("end", [b"0"])
assert len(client.pop(subscriber)) == 1
child = os.fork()
if child == 0:
    try:
        client.push("end", [b"child"])
    except jjq.Conflict as error:
        os._exit(0 if "after forking" in str(error) else 2)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0

def interrupt():
    while not client._quick_calls._calling:
        time.sleep(0.001)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    client.pop(subscriber, wait=60)
    raise AssertionError
except KeyboardInterrupt:
    pass
assert client.push("end", [b"1"]).first_offset == 1
assert [e.value for e in client.pop(subscriber, wait=10)] == [b"1"]
"""


def test_forks_interrupts_and_the_end_of_a_program_do_no_harm(near: JjqServer) -> None:
    with interruptible():
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "error",
                "-W",
                "ignore:.*fork:DeprecationWarning",
                "-c",
                CODE,
                near.address,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=clean_environment(GRPC_VERBOSITY="ERROR"),  # it would tell of the fork
        )
    assert (done.returncode, done.stderr) == (0, "")


async def test_tls_keys_and_pings(tmp_path: Path) -> None:
    authority, chance, clock = Authority(tmp_path, "ours"), SystemChance(), SystemClock()
    tls = Tls(*authority.issue("server"))
    ring = Keyring(MemoryObjects(), clock, chance)
    key = (await ring.create("all", ["admin"])).text
    store = FakeStore()
    server = await serve(store, ServerSettings(listen="127.0.0.1:0", tls=tls), keys=ring)
    limits = SocketLimits(ping_seconds=0.05, pong_seconds=0.05)
    http = await serve_http(server, HttpSettings("127.0.0.1:0", tls=tls), chance, keys=ring, limits=limits)
    await store.create_queue("q")
    await store.create_subscriber("q", "s", "beginning")
    context = jjq.ClientTls(authority.path).context()
    place = SocketPlace("127.0.0.1", http.port, server.transports.instance, context, key)

    def wait_for_an_element(place: SocketPlace) -> bytes:
        made = ThreadSocket(place, clock, chance)
        request = pb.PopRequest(subscriber="q/s", max=1, wait_seconds=0.3)
        try:
            return made.call("Pop", request.SerializeToString(), 10.0)
        finally:
            made.close()

    reply = await asyncio.to_thread(wait_for_an_element, place)
    assert pb.PopResponse.FromString(reply).next == 0
    assert http.sockets.closes[1001] == 0, "pings had their answers"
    for wrong, why in (({"key": None}, "401"), ({"instance": "another"}, "101")):
        with pytest.raises(OSError, match=f"another server answers, or none: .*{why}"):
            await asyncio.to_thread(wait_for_an_element, place._replace(**wrong))
    await asyncio.gather(http.stop(0.1), server.stop(0))
