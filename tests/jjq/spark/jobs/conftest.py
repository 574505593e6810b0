"""The command line over the session that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jjq.cli import output
from jjq.spark.jobs import session
from tests.jjq.cli.command import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStarted(Exception):
    """The job came as far as that."""


@pytest.fixture
def unstarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`jjq pipeline …` where Spark does not start: whoever tries is found out."""

    def started(*_: Any, **__: Any) -> None:
        raise SparkStarted

    monkeypatch.setattr(session, "session", started)
    return Command(tmp_path)


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`jjq pipeline …` in this process: a session that is there is used. A slow machine is no reason for lines."""
    monkeypatch.setattr(output, "LINE_SECONDS", float("inf"))
    return Command(tmp_path)
