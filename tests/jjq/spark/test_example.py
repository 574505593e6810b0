"""The examples of batches run as they stand, in the session that is there."""

from __future__ import annotations

import json
import runpy

import pytest

from tests.architecture.tree import ROOT
from tests.jjq.spark.serving import Serving


@pytest.mark.usefixtures("spark")
def test_spark_read(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = serving.client
    queue = serving.new_queue(content="json", block_bytes=65_536)
    client.push(queue, [json.dumps({"page": f"/page/{n % 7}"}).ljust(100) for n in range(1_400)])
    client.push(queue, [json.dumps({"page": f"/page/{n % 7}"}) for n in range(70)])
    client.create_subscriber(queue, "billing", "last:20")
    monkeypatch.setattr("sys.argv", ["spark_read.py", serving.root, serving.address, queue])
    runpy.run_path(str(ROOT / "examples" / "spark_read.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        *(f"/page/{n}: 210 clicks" for n in range(7)),
        "the last one is at offset 1469",
        "billing is 20 behind",
    ]


@pytest.mark.usefixtures("spark")
def test_spark_thumbnails(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["spark_thumbnails.py", serving.root, serving.address])
    runpy.run_path(str(ROOT / "examples" / "spark_thumbnails.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "red-120: 32 x 32 pixels",
        "red-250: 32 x 32 pixels",
        "red-60: 32 x 32 pixels",
    ]
