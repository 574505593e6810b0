"""Python for Spark's workers: `python tests/spark/warm.py -m MODULE …` is `python -m MODULE …`, but warm.

Spark's daemon forks a process for each question to the data source, and each of them imports pyarrow, pandas
and jjq by itself: a second for an answer that takes milliseconds. Here they are imported before the fork.
"""

from __future__ import annotations

import runpy
import sys

import pandas as pd  # noqa: F401
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401

import jjq.spark.source  # noqa: F401

if __name__ == "__main__":
    del sys.argv[:2]
    sys.path[0] = ""
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
