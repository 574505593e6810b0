"""Errors that reach the driver as one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from coldstore.shared.errors import JjqError


@contextmanager
def one_line() -> Iterator[None]:
    """Around what Spark calls in a Python worker: an error of ours is reported without a traceback.

    The worker looks at this variable when it writes the error to the JVM, and ends right after that; so
    nothing else that it might have run is affected. Errors that are not ours keep their traceback.
    """
    try:
        yield
    except JjqError:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
