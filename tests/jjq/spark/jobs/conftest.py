"""The command line over the session that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jjq.cli import output
from tests.jjq.cli.command import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`jjq pipeline …` in this process: a session that is there is used. A slow machine is no reason for lines."""
    monkeypatch.setattr(output, "LINE_SECONDS", float("inf"))
    return Command(tmp_path)
