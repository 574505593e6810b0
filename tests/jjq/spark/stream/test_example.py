"""The example of a stream runs as it stands, in the session that is there."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.jjq.spark.serving import Serving


@pytest.mark.usefixtures("spark")
def test_spark_stream(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = serving.client
    client.create_queue("clicks", content="json")
    clicks = [json.dumps({"page": f"/page/{n % 7}"}) for n in range(700)]
    monkeypatch.setattr("sys.argv", ["spark_stream.py", serving.address, str(tmp_path)])
    client.push("clicks", clicks)
    runpy.run_path(str(ROOT / "examples" / "spark_stream.py"), run_name="__main__")
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"page": f"/page/{n}", "count": 100} for n in range(7)]
