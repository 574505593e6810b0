"""The command line over the session that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jjq.cli.command import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Command:
    """`jjq pipeline …` in this process: a session that is there is used."""
    return Command(tmp_path)
