"""Running a list of small items on executors: errors come back as values, and progress as it is made."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import JjqError
from jjq.spark.interpreter import use_this_python
from jjq.spark.jobs.failure import Failure, spark_failed
from jjq.spark.jobs.limits import LOOK_SECONDS, TASKS_PER_CORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG: Final = logging.getLogger("jjq.spark")

T = TypeVar("T")
R = TypeVar("R")

# Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Nobody looks."""


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
    hands = [numbered[at::count] for at in range(count)]  # neighbours are alike: deal them out

    def attempt(hand: list[tuple[int, T]]) -> list[tuple[int, R | Failure]]:
        results: list[tuple[int, R | Failure]] = []
        for at, item in hand:
            results.append((at, guarded(work, item)))
            done.add(1)
        return results

    def job() -> list[tuple[int, R | Failure]]:
        return context.parallelize(hands, count).flatMap(attempt).collect()  # type: ignore[no-any-return]

    found = dict(watched(spark, what, job, lambda: progress(done.value, len(items))))
    return [found[at] for at in range(len(items))]


def all_done(results: Sequence[R | Failure]) -> list[R]:
    """The results, if there is no failure among them; else the first one is raised."""
    good: list[R] = []
    for result in results:
        if isinstance(result, Failure):
            raise result.error()
        good.append(result)
    return good


def guarded(work: Callable[[T], R], item: T) -> R | Failure:
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


def watched(spark: SparkSession, what: str, job: Callable[[], R], look: Callable[[], None]) -> R:
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
        while not ended.wait(LOOK_SECONDS):
            look()
    except BaseException:
        spark.sparkContext.cancelJobGroup(group)
        raise
    look()
    result, error = outcome[0]
    if isinstance(error, JjqError):
        raise error
    if error is not None:
        raise spark_failed(what, error) from None
    return result  # type: ignore[no-any-return]


class Failures:
    """Errors of tasks that return data frames: told to the driver by the side."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.accumulators import AccumulatorParam

        class Told(AccumulatorParam):
            def zero(self, value: list[Failure]) -> list[Failure]:
                return []

            def addInPlace(self, left: list[Failure], right: list[Failure]) -> list[Failure]:
                return left + right

        self._told = spark.sparkContext.accumulator([], Told())

    def guard(self, work: Callable[[], Iterator[R]]) -> Iterator[R]:
        """On an executor: what `work` yields, up to an error."""
        _arm()
        try:
            yield from work()
        except JjqError as error:
            self._told.add([Failure.of(error)])

    def raise_first(self) -> None:
        """In the driver, after the job."""
        all_done(self._told.value)
