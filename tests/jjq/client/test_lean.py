"""A process that pushes lists does not load pandas, and may still use it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.servers.jjq_server import JjqServer, clean_environment

PROGRAM = """
import sys
import jjq

def loaded(what):
    assert "pandas" not in sys.modules, what

how, where = sys.argv[1:]
with (jjq.open if how == "open" else jjq.connect)(where) as client:
    client.create_queue("orders")
    client.create_queue("notes", content="json")
    subscriber = client.create_subscriber("orders", "billing", "beginning")
    loaded("creating")
    client.push("orders", [b"a", b"b"])
    loaded("a first list")
    client.push("orders", [b"c"])
    client.push("orders", ["d", "é"], keys=["k", None], headers=[{"a": "1"}, None])
    client.push("notes", ['{"n": 1}'])
    with client.producer("orders") as producer:
        producer.push(b"f", key=b"k", headers={"a": b"2"})
    loaded("pushing")
    values = [element.value for element in client.pop(subscriber.id, max=6)]
    assert values == [b"a", b"b", b"c", b"d", "é".encode(), b"f"], values
    assert not client.peek(subscriber.id)
    assert client.replay("orders", "ago:1h").to_table().num_rows == 6
    assert list(client.replay("notes"))
    loaded("reading")
    frame = client.replay("orders").to_table().to_pandas()
    assert list(frame["value"]) == values
    assert "pandas" in sys.modules
    import pandas, pyarrow
    assert pyarrow.array(pandas.Series([1.0, None])).null_count == 1
    client.push("orders", [b"g"])
    assert client.get_queue("orders").next_offset == 7
print("done")
"""


def check_run(how: str, where: str) -> None:
    assert find_spec("pandas") is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, where],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


def test_embedded(tmp_path: Path) -> None:
    check_run("open", str(tmp_path / "data"))


def test_with_a_server(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server:
        check_run("connect", server.address)
