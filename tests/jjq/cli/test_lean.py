"""What a command does not load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer

SAYS = (
    "import sys; sys.argv = ['jjq', *{words}]\nfrom jjq.cli import main\ntry: main()\nfinally: import pandas"
)

LOADED = (
    "import sys; sys.argv = ['jjq', *{words}]\nfrom jjq.cli import main\ntry: main()\n"
    "finally: print(*sys.modules, file=sys.stderr)"
)


def test_a_push_does_without_pandas(jjq: Command, queue: str) -> None:
    """pyarrow would import it, as it is installed here."""
    assert find_spec("pandas") is not None
    environment = {**jjq.environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    process = jjq.start("push", queue, "a", env=environment)
    _, loaded = process.communicate(timeout=60)
    assert process.returncode == 0, loaded
    assert _is_loaded("pyarrow", loaded)
    assert not re.search(rb"\| +pandas\.", loaded), "parts of it are loaded"


def test_a_command_is_imported_alone(jjq: Command, queue: str) -> None:
    code = LOADED.format(words=["push", queue, "a"])
    process = subprocess.run(
        [sys.executable, "-c", code], env=jjq.environment(), capture_output=True, text=True, check=True
    )
    loaded = set(process.stderr.split())
    assert "jjq.cli.queues.push" in loaded
    others = {
        "jjq.cli.operate.serve",
        "jjq.cli.queues.queue",
        "pyarrow.compute",
        "pyarrow.parquet",
        "rich.console",
    }
    assert loaded & others == set()


def test_help_does_without_arrow(jjq: Command) -> None:
    process = jjq.start("--help", env={**jjq.environment(), "PYTHONPROFILEIMPORTTIME": "1"})
    _, loaded = process.communicate(timeout=60)
    assert process.returncode == 0, loaded
    assert _is_loaded("cyclopts", loaded)
    assert [name for name in ("pyarrow", "numpy", "grpc") if _is_loaded(name, loaded)] == []


def test_an_idle_server_loads_no_engine_that_nobody_asked_for(tmp_path: Path) -> None:
    """DuckDB, boto3 and pandas come with the first query, bucket or job that needs them, Arrow's functions with the
    first block, the client for other nodes with a cluster; rich is for commands."""
    environment = {"PYTHONPROFILEIMPORTTIME": "1", "JJQ_HTTP_LISTEN": "127.0.0.1:0"}
    with JjqServer(tmp_path, environment=environment) as server:
        loaded = server.log.read_bytes()
    assert _is_loaded("jjq.http.serving", loaded)
    engines = (
        "duckdb", "boto3", "botocore", "pandas.core", "pyspark", "pyarrow.dataset", "pyarrow.compute",
        "rich.console", "pygments", "pydantic", "click", "multiprocessing", "http.server", "python_socks",
        "email.message", "jjq.node.cluster", "jjq.remote.store", "jjq.client.client",
    )  # fmt: skip
    assert [name for name in engines if _is_loaded(name, loaded)] == []


def _is_loaded(name: str, loaded: bytes) -> bool:
    return re.search(rb"\| +%b$" % name.encode(), loaded, re.MULTILINE) is not None


BARE = """
import sys
from jjq.cli.lean import prepare_server
prepare_server({})
from prometheus_client.core import CollectorRegistry
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
print("http.server" in sys.modules, "click" in sys.modules)
from prometheus_client import Counter
import uvicorn
made = Counter("made", "", registry=CollectorRegistry())
print(made.collect()[0].name, uvicorn.run.__name__, uvicorn.Config.__name__)
try:
    uvicorn.nothing
except AttributeError as error:
    print(error)
"""


def test_what_a_server_does_without_is_there_for_who_asks() -> None:
    """A driver of the user's runs in the server, too."""
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False False", "made run Config", "module 'uvicorn' has no attribute 'nothing'",
    ]  # fmt: skip


def test_pipelines_may_use_it() -> None:
    def run(*words: str) -> int:
        code = SAYS.format(words=list(words))
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
        ).returncode

    assert run("pipeline", "--help") == 0
    assert run("queue", "--help") == 1


POOL = """
import sys
sys.argv = ["jjq", "--version"]
from jjq.cli import main
try:
    main()
except SystemExit:
    pass
import os
import pyarrow as pa
import pyarrow.parquet as pq
from hotstore.runner import use_quick_pool
use_quick_pool(os.environ)
pq.write_table(pa.table({"x": [b"x" * 1000] * 1000}), pa.BufferOutputStream(), compression="zstd")
print(pa.default_memory_pool().backend_name, pa.mimalloc_memory_pool().max_memory())
"""


def test_all_of_arrow_has_one_allocator() -> None:
    """Its default one keeps what threads of Arrow's own had freed before they ended: 80 MB after a block of 64 MiB."""
    chosen = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(
        [sys.executable, "-c", POOL], env=chosen, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "jemalloc 0"
    mine = subprocess.run(
        [sys.executable, "-c", POOL], env=chosen | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert mine.stdout.splitlines()[-1] == "system 0"
