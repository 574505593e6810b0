"""The Spark session of a job: the one that is there, or one of its own, with advice where there can be none."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.spark.jobs.tasks import job_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Settings of a session that we start. spark-submit and --conf take precedence.
_QUIET: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # a task's error comes back as a value, and is printed in one line
    "spark.sql.session.timeZone": "UTC",
}
_LOUD: Final = {**_QUIET, "spark.log.level": "WARN"}
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the programs that it runs

_STDERR: Final = 2


@contextmanager
def session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None, *, verbose: bool = False
) -> Iterator[SparkSession]:
    """A session; stopped afterwards, unless it was there before. `verbose`: what Spark and Java say is shown."""
    check_installed()
    from pyspark.sql import SparkSession

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
    given = {} if _SUBMITTED in os.environ else _LOUD if verbose else _QUIET
    for key, value in {**given, **(conf or {})}.items():
        builder = builder.config(key, value)
    found = _start(builder, quiet=not verbose and _SUBMITTED not in os.environ)
    try:
        yield found
    finally:
        found.stop()


def check_installed() -> None:
    """PySpark is there, or the error says how to get it."""
    try:
        importlib.import_module("pyspark.sql")
    except ImportError:
        raise InvalidInput("this needs Spark, which is not installed: pip install 'jjq[spark]'") from None


def _start(builder: Any, quiet: bool) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with TemporaryFile() as said, warnings.catch_warnings():
        try:
            if not quiet:
                return builder.getOrCreate()
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            with _errors_to(said):
                return builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            line = job_line(error)
            said.seek(0)
            more = [text for text in said.read().decode(errors="replace").splitlines() if "Exception" in text]
            cause = f"; Java says: {more[-1].strip()[:200]}" if more else ""
            raise Unavailable(
                f"Spark did not start ({line}{cause}): it needs Java 17 or newer, and a master; --verbose shows more"
            ) from None


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """Standard error of processes that start meanwhile goes to `file`, for all of their life.

    Java and log4j speak before any setting of Spark's reaches them, so this is the only way to have them quiet.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


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
