"""jjq for Spark: the history as a table, and with a server's tail everything up to now.

    import jjq.spark

    jjq.spark.read(spark, "s3://bucket/jjq", "orders", start="ago:7d")   # native Parquet scan
    jjq.spark.register(spark)                                            # once per session, then
    spark.read.format("jjq").options(root="s3://bucket/jjq", queue="orders", server="node:7575").load()

    frame, source   the two ways in: `read`, and the data source "jjq"; options and schema are common to both
    columns         helpers for users: text, JSON, headers, subscribers
    large           large objects that elements name: their bytes, or copies of them
    groups          worker groups: their tasks, and what happened to them
    interpreter     which Python the workers run
    cold, server    connections to the cold store and to a server
    errors, limits  one-line errors, reports of skipped blocks; all limits
    scan/           read a range · stream/  follow a queue · write/  push rows · jobs/  pipeline jobs

Needs the extra `spark`. Names are loaded when they are first used: executors need few of them. Spark reads
the cold store and asks servers; it never opens a hot store.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jjq.spark.columns import from_json, header, subscribers, to_text
    from jjq.spark.errors import skipped
    from jjq.spark.frame import read
    from jjq.spark.groups import tasks, transitions
    from jjq.spark.jobs.bulk_import import import_history
    from jjq.spark.large import objects
    from jjq.spark.source import register

_HOME = {
    "from_json": "jjq.spark.columns",
    "header": "jjq.spark.columns",
    "import_history": "jjq.spark.jobs.bulk_import",
    "objects": "jjq.spark.large",
    "read": "jjq.spark.frame",
    "register": "jjq.spark.source",
    "skipped": "jjq.spark.errors",
    "subscribers": "jjq.spark.columns",
    "tasks": "jjq.spark.groups",
    "to_text": "jjq.spark.columns",
    "transitions": "jjq.spark.groups",
}

__all__ = [
    "from_json",
    "header",
    "import_history",
    "objects",
    "read",
    "register",
    "skipped",
    "subscribers",
    "tasks",
    "to_text",
    "transitions",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'jjq.spark' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found
