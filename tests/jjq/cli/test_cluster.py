"""`make cluster`: an S3 server and nodes as local processes, started and stopped together."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
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
        env=clean_environment(JJQ_GRACE_SECONDS="1"),
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(4)]
            assert "one cluster" in said[-1], said
            family = psutil.Process(process.pid).children(recursive=True)
            for n, port in enumerate((first, first + 1)):
                with jjq.connect(f"127.0.0.1:{port}") as client:
                    client.create_queue("orders", block_bytes=64 * 1024)
                    receipt = client.push("orders", [bytes(1_000)] * 100, stage="cold")
                    assert (receipt.stage, receipt.first_offset) == ("cold", 100 * n)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert not [child for child in family if child.is_running()]
        finally:
            process.terminate()


def next_to_each_other() -> int:
    """The first of two free ports in a row."""
    while True:
        (port,) = free_ports(1)
        try:
            with socket.socket() as one, socket.socket() as other:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
        except OSError:
            continue
        return port


def test_a_cluster_without_nodes_is_refused(tmp_path: Path) -> None:
    ran = Command(tmp_path).shell(f'"{sys.executable}" -m jjq.dev_cluster --data c --nodes 0')
    assert (ran.code, "at least one node" in ran.errors) == (2, True)
