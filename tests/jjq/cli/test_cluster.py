"""`make cluster`: an S3 server and nodes as local processes, started and stopped together."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil

import jjq
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import free_ports


def test_nodes_are_one_cluster_over_s3_and_stop_together(tmp_path: Path) -> None:
    first, s3 = next_to_each_other(), free_ports(1)[0]
    command = [sys.executable, "-m", "jjq.dev_cluster", "--data", str(tmp_path / "c"), "--nodes", "2"]
    with subprocess.Popen(
        [*command, "--port", str(first), "--s3-port", str(s3)],
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.PIPE,
        env=clean_environment(JJQ_GRACE_SECONDS="1", JJQ_LEASE_SECONDS="2"),
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(4)]
            assert "one cluster" in said[-1], said
            for n, port in enumerate((first, first + 1)):
                with jjq.connect(f"127.0.0.1:{port}") as client:
                    client.create_queue("orders", block_bytes=64 * 1024)
                    receipt = client.push("orders", [bytes(1_000)] * 100, stage="cold")
                    assert (receipt.stage, receipt.first_offset) == ("cold", 100 * n)
            drill(process, first, tmp_path / "c")
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert not [child for child in family if child.is_running()]
        finally:
            process.terminate()


def drill(process: subprocess.Popen[str], first: int, data: Path) -> None:
    """A node is killed; the other has its queues, with all that was acknowledged; it comes back when told to."""
    assert process.stdin is not None
    assert process.stdout is not None
    with jjq.connect(f"127.0.0.1:{first + 1}", timeout=60.0) as client:
        queues = [f"q-{n}" for n in range(8)]  # some of them are of the node that dies
        for queue in queues:
            client.create_queue(queue)
            client.push(queue, [b"kept"])
        process.stdin.write("kill n1\n")
        process.stdin.flush()
        assert "node-1 died by SIGKILL; the others go on" in process.stdout.readline()
        for queue in queues:
            # With an identity: the first attempt may meet the dead node.
            assert client.push(queue, [b"more"], producer="drill", sequence=1).first_offset == 1
            assert [e.value for e in client.replay(queue).elements()] == [b"kept", b"more"]
    command = [sys.executable, "-m", "jjq.dev_cluster", "restart", "node-1", "--data", str(data)]
    subprocess.run(command, check=True, env=clean_environment())
    assert process.stdout.readline() == "node-1 is back\n"
    process.stdin.write("restart node-9\n")
    process.stdin.flush()
    assert "the nodes are node-1, node-2" in process.stdout.readline()
    with jjq.connect(f"127.0.0.1:{first}", timeout=60.0) as client:
        assert client.get_queue("q-0").next_offset == 2


def test_orders_to_a_cluster_that_does_not_run_are_refused(tmp_path: Path) -> None:
    ran = Command(tmp_path).shell(f'"{sys.executable}" -m jjq.dev_cluster restart node-1 --data c')
    assert (ran.code, "no cluster runs in c" in ran.errors) == (7, True)


def next_to_each_other(count: int = 4) -> int:
    """The first of so many free ports in a row: two nodes have one each for gRPC, then one each for HTTP."""
    while True:
        (port,) = free_ports(1)
        try:
            with ExitStack() as stack:
                for n in range(count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + n))
        except (OSError, OverflowError):
            continue
        return port


def test_a_cluster_without_nodes_is_refused(tmp_path: Path) -> None:
    ran = Command(tmp_path).shell(f'"{sys.executable}" -m jjq.dev_cluster --data c --nodes 0')
    assert (ran.code, "at least one node" in ran.errors) == (2, True)
