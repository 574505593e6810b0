"""The Spark session of a job: the one that is there, or one of its own, with advice where there can be none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coldstore.shared.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Settings of a session that we start. spark-submit and --conf take precedence.
_QUIET: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the programs that it runs


@contextmanager
def session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session; stopped afterwards, unless it was there before."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise InvalidInput("this needs Spark, which is not installed: pip install 'jjq[spark]'") from None
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    if _SUBMITTED not in os.environ:
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers would run any python3
    builder = SparkSession.builder.appName(f"jjq {name}")
    if master is not None:
        builder = builder.master(master)
    given = {} if _SUBMITTED in os.environ else _QUIET
    for key, value in {**given, **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        found = builder.getOrCreate()
    except PySparkException as error:
        line = str(error).splitlines()[0]
        raise Unavailable(f"Spark did not start ({line}): it needs Java 17 or newer, and a master") from None
    try:
        yield found
    finally:
        found.stop()


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").is_file() if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, where there is none" if home else "no java on the PATH"
        raise InvalidInput(f"Spark needs a Java runtime: {where}; install Java 17 or newer, or set JAVA_HOME")


def parse_conf(pairs: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE texts as Spark's settings."""
    for pair in pairs:
        if not pair.partition("=")[1]:
            raise InvalidInput(f"--conf {pair[:60]!r} has no value: write KEY=VALUE")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
