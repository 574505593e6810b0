"""Which Python Spark's workers run.

Unless PYSPARK_PYTHON says otherwise when a session starts, workers run `python3` from the PATH. A driver that
was started as `.venv/bin/python program.py` then has workers without jjq, whose first error is about some module
that is missing, far from its cause.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSAID: Final = "python3"  # what Spark takes by default
_SETTING: Final = "spark.pyspark.python"


def use_this_python(spark: SparkSession) -> None:
    """Have workers run the driver's Python, where they are on its machine; elsewhere warn that they do not.

    A choice of the user is left alone. Spark obeys `spark.pyspark.python` only if spark-submit gets it; if the session
    has it, it is used here.
    """
    context = _context(spark)
    if context is None or context.pythonExec != _UNSAID or os.environ.get("PYSPARK_PYTHON"):
        return
    said = context.getConf().get(_SETTING)
    if said:
        context.pythonExec = said
    elif not sys.executable or _is_on_path(sys.executable):
        return
    elif context.master.startswith("local"):  # also local-cluster, whose workers are on this machine
        context.pythonExec = sys.executable
    else:
        warnings.warn(
            f"Spark's workers run python3 from their PATH, but this driver runs {sys.executable}: if they lack jjq, "
            "set PYSPARK_PYTHON, before the session starts, to a Python with jjq[spark] that every worker has",
            RuntimeWarning,
            stacklevel=3,
        )


def _context(spark: SparkSession) -> Any:
    """The session's context, by which functions are handed to workers; None with Spark Connect."""
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return None


def _is_on_path(executable: str) -> bool:
    """Whether `python3` is that interpreter: of the same folder, since all environments link to one binary."""
    found = shutil.which(_UNSAID)
    return found is not None and Path(found).parent.resolve() == Path(executable).parent.resolve()
