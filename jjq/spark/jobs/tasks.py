"""Run work on Spark's executors: a list of small items, or a function over Arrow batches.

An error of jjq's travels from an executor to the driver as a value (`Failure`), so that a person sees one line and no
traceback. Progress is reported while the job runs.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import pyarrow as pa

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import KINDS, DataLoss, JjqError, OutOfRange, Unavailable
from jjq.spark.interpreter import use_this_python
from jjq.spark.limits import PROGRESS_SECONDS, TASKS_PER_CORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a task ended with."""

    code: str
    message: str
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: JjqError) -> Self:
        more: dict[str, Any] = {}
        if isinstance(error, OutOfRange):
            more = {"first": error.first, "next": error.next}
        elif isinstance(error, DataLoss):
            more = {"key": error.key, "block": error.block}
        return cls(error.code, error.message, more)

    def error(self) -> JjqError:
        """The error again, of the same kind."""
        kind = next((kind for kind in KINDS if kind.code == self.code), JjqError)
        return kind(self.message, **self.more)


def job_failed(what: str, error: Exception) -> Unavailable:
    """The error for a job that Spark gave up: an executor died, or a task raised something unexpected."""
    return Unavailable(f"{what}: Spark gave up ({job_line(error)}); run it again, it goes on where it was")


def job_line(error: Exception) -> str:
    """The line that says most: the last one of a Python traceback, else the first."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if ": " in line and not line.startswith(("at ", "File "))]
    chosen = errors[-1] if "Traceback" in text and errors else (lines[0] if lines else type(error).__name__)
    return chosen[:300]


LOG: Final = logging.getLogger("jjq.spark")

T = TypeVar("T")
R = TypeVar("R")

_IS_LOCAL: Final = re.compile(r"local(\[.*\])?")  # not local-cluster, which has executors of its own

# Called with the number of items that are done, and of all items.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Show no progress."""


_SILENT: Final[Progress] = silent


def run(
    spark: SparkSession,
    what: str,
    items: Sequence[T],
    work: Callable[[T], R],
    progress: Progress = _SILENT,
) -> list[R | Failure]:
    """`work(item)` for each item, on executors; results in order, errors of jjq's as `Failure`.

    `work` and items are pickled: functions of a module, perhaps with arguments bound, and plain values.
    """
    use_this_python(spark)
    context = spark.sparkContext
    done = context.accumulator(0)
    count = min(len(items), TASKS_PER_CORE * context.defaultParallelism)
    if not count:
        return []
    numbered = list(enumerate(items))
    hands = [numbered[at::count] for at in range(count)]  # neighbours are alike: deal them out like cards

    def attempt(hand: list[tuple[int, T]]) -> list[tuple[int, R | Failure]]:
        results: list[tuple[int, R | Failure]] = []
        for at, item in hand:
            results.append((at, run_guarded(work, item)))
            done.add(1)
        return results

    def job() -> list[tuple[int, R | Failure]]:
        return context.parallelize(hands, count).flatMap(attempt).collect()  # type: ignore[no-any-return]

    found = dict(run_watched(spark, what, job, lambda: progress(done.value, len(items))))
    return [found[at] for at in range(len(items))]


def run_one(spark: SparkSession, what: str, item: T, work: Callable[[T], R]) -> R:
    """`work(item)` on an executor, for work that cannot be shared out; errors of jjq's are raised.

    Where this process is the executor (`--master local[N]`), the work is done here: a Python worker would be one more
    process on the same machine, which first has to start and to import what this one has. That, and the first job
    of a session, take longer than a million rows.
    """
    if _IS_LOCAL.fullmatch(spark.sparkContext.master) is None:
        (result,) = raise_failures(run(spark, what, [item], work))
        return result
    try:
        return work(item)
    except JjqError:
        raise
    except Exception as error:
        raise Unavailable(f"{what}: {job_line(error)}; run it again, it goes on where it was") from error


def raise_failures(results: Sequence[R | Failure]) -> list[R]:
    """The results, if there is no failure among them; else the first one is raised."""
    good: list[R] = []
    for result in results:
        if isinstance(result, Failure):
            raise result.error()
        good.append(result)
    return good


def run_guarded(work: Callable[[T], R], item: T) -> R | Failure:
    """On an executor: do the work, or say why not."""
    _arm()
    try:
        return work(item)
    except JjqError as error:
        return Failure.of(error)


@functools.cache
def _arm() -> None:
    """Executors are processes of their own: fail points of a test reach them by the environment."""
    failpoint.arm_from(os.environ)


def run_watched(spark: SparkSession, what: str, job: Callable[[], R], look: Callable[[], None]) -> R:
    """Run a job of Spark's in a thread and look at it now and then; Ctrl-C cancels it."""
    group = f"jjq-{SystemChance().token()}"
    ended = Event()
    outcome: list[Any] = []

    def body() -> None:
        try:
            spark.sparkContext.setJobGroup(group, f"jjq {what}", interruptOnCancel=True)
            outcome.append((job(), None))
        except Exception as error:  # noqa: BLE001 raised below, in the caller's thread
            outcome.append((None, error))
        finally:
            ended.set()

    thread = Thread(target=body, name=f"jjq-{what}", daemon=True)
    thread.start()
    try:
        while not ended.wait(PROGRESS_SECONDS):
            look()
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    look()
    result, error = outcome[0]
    if isinstance(error, JjqError):
        raise error
    if error is not None:
        raise job_failed(what, error) from None
    return result  # type: ignore[no-any-return]


class Failures:
    """Errors of tasks that return data frames. They reach the driver through an accumulator."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.accumulators import AccumulatorParam

        class FailureList(AccumulatorParam):
            def zero(self, value: list[Failure]) -> list[Failure]:
                return []

            def addInPlace(self, left: list[Failure], right: list[Failure]) -> list[Failure]:
                return left + right

        self._failed = spark.sparkContext.accumulator([], FailureList())

    def guard(self, work: Callable[[], Iterator[R]]) -> Iterator[R]:
        """On an executor: what `work` yields, up to an error."""
        _arm()
        try:
            yield from work()
        except JjqError as error:
            self._failed.add([Failure.of(error)])

    def raise_first(self) -> None:
        """In the driver, after the job."""
        raise_failures(self._failed.value)


def map_in_arrow(
    frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`frame.mapInArrow`, without its remark about a release of pandas, which is not used here."""
    use_this_python(frame.sparkSession)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(work, schema)
