"""`verify`: read every file of a store, section by section on executors (coldstore/queue/sections.py).

There are three rounds. Executors list each queue and cut it into sections. Executors check the sections, and
the driver joins the reports by the first and last block of each section. Executors compare the data folders
with the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from coldstore.block.files import BlockFiles
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.settings import S3Settings
from coldstore.queue import sections, verify
from coldstore.queue.sections import Section, SectionPlan, SectionReport
from coldstore.queue.verify import MergedSections, Report
from jjq.spark import cold
from jjq.spark.jobs import tasks
from jjq.spark.jobs.tasks import Progress, silent
from jjq.spark.limits import SECTION_BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Planned(NamedTuple):
    """A queue that can be verified."""

    settings: QueueSettings
    plan: SectionPlan


class StoreLocation(NamedTuple):
    """Where the store is: all that an executor needs to open it."""

    root: str
    s3: S3Settings

    def files(self, settings: QueueSettings) -> BlockFiles:
        return BlockFiles(cold.objects(self.root, self.s3), settings)


def verify_store(
    spark: SparkSession,
    root: str,
    queues: Sequence[str] = (),
    *,
    s3: S3Settings | None = None,
    section_blocks: int = SECTION_BLOCKS,
    progress: Progress = silent,
) -> list[Report]:
    """A report for each of these queues, or for all."""
    where = StoreLocation(root, s3 or S3Settings())
    names = list(queues) or cold.store(*where).entries()
    planned = tasks.raise_failures(tasks.run(spark, "verify", names, partial(_plan, where, section_blocks)))
    sound = [found for found in planned if isinstance(found, Planned)]
    work = [(found.settings, each) for found in sound for each in found.plan.sections]
    parts = iter(tasks.raise_failures(tasks.run(spark, "verify", work, partial(_check, where), progress)))
    joined = [
        verify.join_sections(where.files(settings), plan, list(islice(parts, len(plan.sections))))
        for settings, plan in sound
    ]
    settled = [(found.settings, each) for found, each in zip(sound, joined, strict=True)]
    reports = tasks.raise_failures(tasks.run(spark, "verify", settled, partial(_finish, where)))
    reports += [found for found in planned if isinstance(found, Report)]
    place = {name: at for at, name in enumerate(names)}
    return sorted(reports, key=lambda report: place[report.queue])


def _plan(where: StoreLocation, section_blocks: int, name: str) -> Planned | Report:
    judged = cold.store(*where).judge(name)
    if isinstance(judged, Report):
        return judged
    return Planned(judged.settings, sections.plan(judged, section_blocks))


def _check(where: StoreLocation, item: tuple[QueueSettings, Section]) -> SectionReport:
    settings, each = item
    return sections.check(where.files(settings), each)


def _finish(where: StoreLocation, item: tuple[QueueSettings, MergedSections]) -> Report:
    settings, joined = item
    return verify.finish(where.files(settings), joined)
