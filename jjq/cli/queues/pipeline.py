"""`jjq pipeline …`: jobs over a whole cold store, on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from jjq.cli import exits
from jjq.cli.connection import Flag, Json, s3_settings
from jjq.cli.output import bytes_text, note, print_fields, print_json, print_table, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coldstore.objects.settings import S3Settings

app = App(
    name="pipeline", help="Jobs over a whole cold store, on Spark: compact, verify, import, export, stats."
)

_STORE = "Store"
_SPARK = "Spark"
_COLUMNS = "Columns"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@Parameter(name="*")
@dataclass(frozen=True)
class Job:
    """Which store, and which Spark."""

    cold: Annotated[str, Parameter(env_var="JJQ_COLD", group=_STORE)]
    """The cold store: a folder, or s3://BUCKET/PREFIX."""

    s3_endpoint: Annotated[str | None, Parameter(env_var="JJQ_S3_ENDPOINT", group=_STORE)] = None
    """URL of an S3 server that is not AWS."""

    s3_region: Annotated[str | None, Parameter(env_var="JJQ_S3_REGION", group=_STORE)] = None
    """Region of the bucket."""

    master: Annotated[str | None, Parameter(env_var="JJQ_SPARK_MASTER", group=_SPARK)] = None
    """Spark's master, such as spark://HOST:7077 or local[4]; by default what Spark is set up for, else this machine."""

    conf: Annotated[tuple[str, ...], Parameter(group=_SPARK, negative="")] = ()
    """KEY=VALUE: a setting of Spark's; may be given several times."""

    verbose: Annotated[Flag, Parameter(group=_SPARK)] = False
    """Show what Spark and Java say: their warnings, and their traces of errors."""

    @property
    def root(self) -> str:
        return _resolved(self.cold)

    @property
    def s3(self) -> S3Settings:
        return s3_settings(self.s3_endpoint, self.s3_region)

    @contextmanager
    def session(
        self, name: str, *, new: bool = False, check: Callable[[], None] = lambda: None
    ) -> Iterator[SparkSession]:
        """Spark. Before it starts, which is slow, the store is looked at, and `check` made. `new`: it may be empty."""
        from coldstore.shared.errors import InvalidInput
        from jjq.spark import cold
        from jjq.spark.cold import store_or_new
        from jjq.spark.jobs.session import check_installed, parse_conf, session

        conf = parse_conf(self.conf)
        if self.cold == "memory:":
            raise InvalidInput("executors are other processes, which cannot see memory: give a folder or S3")
        if new:
            store_or_new(self.root, self.s3)
        else:
            cold.store(self.root, self.s3)
        check_installed()
        check()
        with session(name, self.master, conf, verbose=self.verbose) as spark:
            yield spark


@Parameter(name="*")
@dataclass(frozen=True)
class Columns:
    """Which column of a source is what."""

    order: Annotated[tuple[str, ...], Parameter(group=_COLUMNS, negative="")]
    """The column that elements are ordered by; several for ties."""

    value: Annotated[str, Parameter(group=_COLUMNS)] = "value"
    """The column with the values; * with --content json: the whole row, as an object."""

    time: Annotated[str | None, Parameter(group=_COLUMNS)] = None
    """The column with timestamps: times, dates, or text as 2026-11-01T00:00:00Z, 2026-11-01 00:00:00+00 or
    2026-11-01, in UTC without a zone; numbers with --time-unit. None: all get the time of the import."""

    time_unit: Annotated[Literal["s", "ms", "us"] | None, Parameter(group=_COLUMNS)] = None
    """What numbers in the column with timestamps count since 1970: seconds, milliseconds or microseconds."""

    key: Annotated[str | None, Parameter(group=_COLUMNS)] = None
    """The column with keys."""

    headers: Annotated[str | None, Parameter(group=_COLUMNS)] = None
    """The column with headers, a map."""


def _resolved(url: str) -> str:
    """A folder's path as every process of this machine understands it."""
    return url if _SCHEME.match(url) else str(Path(url).expanduser().resolve())


@app.command
def compact(*queues: str, job: Job, all: Flag = False, json: Json = False) -> int:
    """Merge young blocks into final ones, in many queues at once. Servers may go on writing meanwhile.

    ```
    jjq pipeline compact --cold s3://bucket/jjq
    jjq pipeline compact orders --cold ./jjq-data/cold --all
    ```

    Ends with 1 if a queue could not be compacted. The other queues are compacted nevertheless.

    Parameters
    ----------
    queues
        Names of queues. Default: all queues.
    all
        Also merge blocks that are not due yet. This makes small final blocks, which stay small.
    json
        Print a list of what was done.
    """

    def check() -> None:
        from jjq.spark.jobs.compact import check_queues

        check_queues(job.root, queues, job.s3)

    with (
        job.session("compact", check=check) as spark,
        progress("compact", None, unit="queues", lines=True) as bar,
    ):
        from jjq.spark.jobs.compact import compact as run

        done = run(spark, job.root, queues, everything=all, s3=job.s3, progress=bar)
    if json:
        print_json([asdict(each) for each in done])
    else:
        print_table(
            ("QUEUE", "YOUNG", "LEFT", "FINAL BLOCKS", "ELEMENTS", "STORED"),
            [(c.queue, c.young, c.left, c.blocks, c.elements, bytes_text(c.stored_bytes)) for c in done],
        )
    failed = [each for each in done if each.error is not None]
    for each in failed:
        note(f"jjq: queue {each.queue}: {each.error}")
    return exits.ERROR if failed else exits.OK


@app.command
def verify(*queues: str, job: Job, json: Json = False) -> int:
    """Read every block of a cold store on all executors, and check that nothing is missing or altered.

    ```
    jjq pipeline verify --cold s3://bucket/jjq --master spark://host:7077
    ```

    Nothing is changed. The report and the exit codes are those of `jjq verify`.

    Parameters
    ----------
    queues
        Names of queues. Default: all queues.
    json
        Print the findings as JSON.
    """
    from jjq.cli.operate.verify import exit_code, print_reports

    def check() -> None:
        from jjq.spark import cold

        store = cold.store(job.root, job.s3)
        for name in queues:
            store.judge(name)

    with (
        job.session("verify", check=check) as spark,
        progress("verify", None, unit="sections", lines=True) as bar,
    ):
        from jjq.spark.jobs.verify import verify_store

        reports = verify_store(spark, job.root, queues, s3=job.s3, progress=bar)
    print_reports(reports, json)
    return exit_code(reports)


@app.command(name="import")
def import_(
    queue: str,
    *sources: str,
    job: Job,
    columns: Columns,
    format: Literal["parquet", "jsonl", "csv"] = "parquet",
    content: Literal["bytes", "text", "json"] | None = None,
    block_bytes: str | None = None,
    block_seconds: float | None = None,
    idle: Flag = False,
    json: Json = False,
) -> None:
    """Import history into a new queue, as blocks: all of it, or nothing.

    Queue, files, format, columns and the first times are checked before Spark starts, as far as they can be.

    ```
    jjq pipeline import orders history/*.parquet --cold ./cold --order id --value body --time at --key user
    jjq pipeline import events events.jsonl --format jsonl --cold s3://bucket/jjq --order at --value '*' --content json
    ```

    Parameters
    ----------
    queue
        Name of the queue, which need not exist.
    sources
        Files or folders, as Spark reads them.
    format
        What the sources are. CSV has a header line.
    content
        What the queue holds; bytes if it is new.
    block_bytes
        Size at which a block ends, such as 64MiB.
    block_seconds
        Age at which a block of later pushes ends.
    idle
        The queue exists, no server has it open, and no journal holds elements of it: go on after its end.
    json
        Print what was imported as JSON.
    """
    from jjq.cli.output import parse_size
    from jjq.spark.jobs.bulk_import import check_queue, import_files
    from jjq.spark.jobs.import_columns import Shape
    from jjq.spark.jobs.import_source import check_source

    files = [_resolved(source) for source in sources]
    settings: dict[str, Any] = {
        "content": content,
        "block_bytes": parse_size(block_bytes, "--block-bytes"),
        "block_seconds": block_seconds,
    }

    shape = Shape(**asdict(columns))

    def check() -> None:
        check_queue(job.root, queue, idle, job.s3, **settings)
        check_source(files, format, shape, job.s3)

    with job.session("import", new=True, check=check) as spark, _bars("import") as bars:
        done = import_files(
            spark, files, format, job.root, queue, shape, idle=idle, s3=job.s3, progress=bars, **settings
        )
    _print(asdict(done), json)


@app.command
def export(
    queue: str,
    to: str,
    *,
    job: Job,
    start: str = "beginning",
    end: str = "end",
    format: Literal["parquet", "jsonl"] = "parquet",
    by: Literal["hour", "date", "none"] = "hour",
    json: Json = False,
) -> None:
    """Export a range of a queue to partitioned Parquet, or to JSON lines.

    ```
    jjq pipeline export orders ./orders --cold ./jjq-data/cold --start ago:7d
    jjq pipeline export orders s3://bucket/export --cold s3://bucket/jjq --format jsonl --by date
    ```

    If it was interrupted, run it again with the same options: it continues.

    Parameters
    ----------
    queue
        Name of the queue.
    to
        A new folder, or s3://BUCKET/PREFIX in the same S3 as the store.
    start
        Where to begin: beginning, offset:N, time:ISO, ago:7d or last:N.
    end
        Where to end, not included; the same words, or end.
    format
        parquet, or jsonl: compressed lines, as `jjq replay --json` prints them.
    by
        Folders for dates and hours (UTC), for dates, or none.
    json
        Print what was exported as JSON.
    """
    target = _resolved(to)

    def check() -> None:
        from jjq.spark.jobs.export import check_export

        check_export(job.root, queue, target, start, end, format, by, job.s3)

    with (
        job.session("export", check=check) as spark,
        progress("export", None, unit="parts", lines=True) as bar,
    ):
        from jjq.spark.jobs.export import export as run

        done = run(
            spark, job.root, queue, target, start=start, end=end, format=format, by=by,
            s3=job.s3, progress=bar,
        )  # fmt: skip
    _print(asdict(done), json)


@app.command
def stats(
    *queues: str,
    job: Job,
    start: str = "beginning",
    end: str = "end",
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Show what queues hold, hour by hour: elements, bytes, sizes, keys, compression.

    ```
    jjq pipeline stats --cold s3://bucket/jjq --start ago:7d --plot week.png
    ```

    Parameters
    ----------
    queues
        Names of queues. Default: all queues.
    start
        Where to begin: beginning, offset:N, time:ISO, ago:7d or last:N.
    end
        Where to end, not included; the same words, or end.
    plot
        Also draw the figures into this PNG file.
    json
        Print the rows as JSON.
    """

    def check() -> None:
        from jjq.spark.jobs.stats import check_stats

        check_stats(job.root, queues, start, end, plot is not None, job.s3)

    with job.session("stats", check=check) as spark, progress("stats", None, unit="parts", lines=True) as bar:
        from jjq.spark.jobs.stats import draw_hours
        from jjq.spark.jobs.stats import stats as run

        hours = run(spark, job.root, queues, start=start, end=end, s3=job.s3, progress=bar)
    if json:
        print_json([{**asdict(hour), "compression": round(hour.compression, 3)} for hour in hours])
    else:
        columns = (
            "QUEUE", "HOUR", "ELEMENTS", "BYTES", "MIN", "AVG", "P50", "P99", "MAX", "KEYED", "KEYS", "STORED", "×",
        )  # fmt: skip
        print_table(
            columns,
            [
                (h.queue, h.hour.strftime("%Y-%m-%dT%H"), h.elements, bytes_text(h.bytes), h.size_min,
                 f"{h.size_avg:.1f}", h.size_p50, h.size_p99, h.size_max, h.keyed, h.keys,
                 bytes_text(h.stored_bytes), f"{h.compression:.2f}")
                for h in hours
            ],
        )  # fmt: skip
    if plot is not None:
        draw_hours(hours, plot)


@contextmanager
def _bars(what: str) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A progress bar for each step of a job, one after the other."""
    with ExitStack() as shown:

        def begin(step: str) -> Callable[[int, int], None]:
            shown.close()
            unit = "blocks" if step == "publish" else "elements"
            return shown.enter_context(progress(f"{what}: {step}", None, unit=unit, lines=True))

        yield begin


def _print(done: dict[str, Any], json: bool) -> None:
    if json:
        print_json(done)
    else:
        print_fields(done)
