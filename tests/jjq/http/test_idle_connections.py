"""More connections that ask for nothing than a shell lets a process have files (FAULTS.md, row 35).

What happens beyond the limit of our own is in test_bad_requests.py. 10,000 connections, of which 8,000 may stay, were
tried by hand: others are served as here, and the server took less than 150 MiB for them.
"""

from __future__ import annotations

import http.client
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

import jjq
from coldstore.shared.limits import MIB
from jjq.open_files import allow_many
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import free_ports, wait_until

CONNECTIONS = 1_500
USUAL = 1_024  # files that most shells allow a process, until it asks for more
STARTS = (b"", b"GET /healthz HTTP/1.1\r\nHost: local")  # nothing, and half a request


@contextmanager
def files(most: int) -> Iterator[None]:
    """Processes that are started now may have so many open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def is_closed(sock: socket.socket) -> bool:
    """Whether the other side has ended it."""
    try:
        return sock.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def knock(port: int, stack: ExitStack) -> socket.socket:
    """A connection that may begin to say something, and then is silent."""
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free at once
    return sock


def push(port: int) -> int:
    """Over HTTP, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/queues/q/elements", b"x", {"Content-Type": "text/plain"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_idle_connections_take_no_file_from_others(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    port = free_ports(1)[0]
    server = JjqServer(tmp_path, environment={"JJQ_HTTP_LISTEN": f"127.0.0.1:{port}"})
    with ExitStack() as stack:
        with files(min(USUAL, before[0])):
            stack.enter_context(server)
        allow_many()
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        client = stack.enter_context(jjq.connect(server.address))
        client.create_queue("q")
        assert push(port) == 200  # what first pushes need is not theirs
        assert client.push("q", ["x"]).first_offset == 1
        process = psutil.Process(server.process.pid)
        memory, fds = process.memory_info().rss, process.num_fds()
        with ExitStack() as crowd:
            sockets = [knock(port, crowd) for _ in range(CONNECTIONS)]
            for n, each in enumerate(sockets):
                each.send(STARTS[n % 2])
            wait_until(lambda: process.num_fds() - fds >= CONNECTIONS, "all are accepted", 60)
            assert push(port) == 200
            assert client.push("q", ["y"]).first_offset == 3
            assert not any(map(is_closed, sockets)), "there is room for all of them"
            assert process.memory_info().rss - memory < 100 * MIB
        wait_until(lambda: process.num_fds() < fds + 50, "nothing of them is left", 60)
        assert push(port) == 200
