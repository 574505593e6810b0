"""The options of a reader or writer: read once from Spark into a frozen object that can be pickled.

    root            s3://BUCKET/PREFIX, or a folder: the cold store, read inside the executors
    server          HOST:PORT[,HOST:PORT…]: read for what is not cold yet; for everything, if there is no root
    queue           its name, or its id
    start, end      starting points (coldstore/start_points.py); everything by default
    columns         those to read, with commas between
    on_damage       fail (the default) or skip: leave out what is damaged, and say what was left out
    partition_bytes stored bytes that one task reads
    timeout         seconds that a call to the server may take, with all its attempts
    push_filters    none (the default), or once: Spark hands over its filters, and they stay with the frame
    times           SINCE,UNTIL in microseconds: what has no element of these times is not opened (frame.py)
    s3_endpoint, s3_region, s3_addressing, s3_access_key, s3_secret_key, s3_session_token
    tls_authority, tls_certificate, tls_key   paths, present on every executor

Keys are not case-sensitive. An unknown key is refused, because it is most often a typing error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from coldstore import start_points
from coldstore.block.read import COLUMNS
from coldstore.layout.paths import check_name
from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import InvalidInput
from jjq.limits import CALL_SECONDS
from jjq.spark.limits import PARTITION_BYTES_DEFAULT, PARTITION_BYTES_MIN

if TYPE_CHECKING:
    from jjq.remote.settings import ClientTls

OnDamage = Literal["fail", "skip"]
PushFilters = Literal["none", "once"]

_S3: Final = ("endpoint", "region", "addressing", "access_key", "secret_key", "session_token")
_TLS: Final = ("authority", "certificate", "key")
NAMES: Final = (
    "root",
    "server",
    "queue",
    "start",
    "end",
    "columns",
    "on_damage",
    "partition_bytes",
    "timeout",
    *(f"s3_{name}" for name in _S3),
    *(f"tls_{name}" for name in _TLS),
)
# Only for tables: streams and sinks refuse them.
TABLE_NAMES: Final = ("push_filters", "times")
# Only for streams (stream/rate_limit.py). Spark's Kafka source has options of the same names.
STREAM_NAMES: Final = ("maxoffsetspertrigger", "maxbytespertrigger")
# Spark's own, which it hands on to every source and sink.
_SPARKS: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which queue, from where, and which part of it."""

    queue: str
    root: str | None = None
    server: str | None = None
    start: str = "beginning"
    end: str = "end"
    columns: tuple[str, ...] = COLUMNS
    on_damage: OnDamage = "fail"
    partition_bytes: int = PARTITION_BYTES_DEFAULT
    timeout: float = CALL_SECONDS
    push_filters: PushFilters = "none"
    times: tuple[int, int] | None = None
    s3: S3Settings = field(default_factory=S3Settings)
    tls: ClientTls | None = None

    def __post_init__(self) -> None:
        check_name(self.queue)
        if not self.root and not self.server:
            raise InvalidInput("say where the queue is: option root (a cold store), option server, or both")
        for point in (self.start, self.end):
            start_points.parse(point)
        if self.on_damage not in get_args(OnDamage):
            raise InvalidInput(f"on_damage is {self.on_damage!r}: use fail or skip")
        if self.push_filters not in get_args(PushFilters):
            raise InvalidInput(f"push_filters is {self.push_filters!r}: use none or once")
        if self.partition_bytes < PARTITION_BYTES_MIN:
            raise InvalidInput(
                f"partition_bytes is {self.partition_bytes}: use at least {PARTITION_BYTES_MIN}"
            )
        if self.timeout < 1:
            raise InvalidInput(f"timeout is {self.timeout:g}: use at least 1 second")
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or not self.columns or len(set(self.columns)) < len(self.columns):
            raise InvalidInput(f"columns are {', '.join(self.columns)!r}: choose from {', '.join(COLUMNS)}")

    @classmethod
    def parse(cls, given: Mapping[str, str], also: Collection[str] = ()) -> Self:
        """The options that Spark hands over; `also` are names that the caller reads by itself."""
        to_spark = {key.lower().replace("-", "_"): str(value).strip() for key, value in given.items()}
        known = {*NAMES, *also} | _SPARKS
        unknown = sorted(key for key in to_spark if key not in known)
        if unknown:
            raise InvalidInput(f"option {unknown[0][:40]!r} is not known: use {', '.join([*NAMES, *also])}")
        if not to_spark.get("queue"):
            raise InvalidInput("option queue is missing: give the name or the id of a queue")
        texts = ("root", "server", "queue", "start", "end", "on_damage", "push_filters")
        chosen: dict[str, Any] = {name: to_spark[name] for name in texts if to_spark.get(name)}
        if to_spark.get("columns"):
            chosen["columns"] = tuple(name.strip() for name in to_spark["columns"].split(","))
        for name in ("partition_bytes", "timeout"):
            if to_spark.get(name):
                chosen[name] = _number(name, to_spark[name])
        if to_spark.get("times"):
            chosen["times"] = _times(to_spark["times"])
        return cls(**chosen, s3=_s3(to_spark), tls=_tls(to_spark))

    def to_spark(self) -> dict[str, str]:
        """The same as Spark hands it over."""
        given = {
            "root": self.root,
            "server": self.server,
            "queue": self.queue,
            "start": self.start,
            "end": self.end,
            "columns": ",".join(self.columns),
            "on_damage": self.on_damage,
            "partition_bytes": self.partition_bytes,
            "push_filters": None if self.push_filters == "none" else self.push_filters,
            "times": None if self.times is None else ",".join(map(str, self.times)),
            **{f"s3_{name}": getattr(self.s3, name) for name in _S3},
            **({} if self.tls is None else {f"tls_{name}": getattr(self.tls, name) for name in _TLS}),
        }
        return {name: str(value) for name, value in given.items() if value is not None}


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 19:
        raise InvalidInput(f"{name} is {text[:40]!r}: use a whole number")
    return int(text)


def _times(text: str) -> tuple[int, int]:
    since, _, until = text.partition(",")
    for number in (since, until):
        _number("times", number.removeprefix("-"))
    return int(since), int(until)


def _s3(to_spark: Mapping[str, str]) -> S3Settings:
    chosen: dict[str, Any] = {name: to_spark[f"s3_{name}"] for name in _S3 if to_spark.get(f"s3_{name}")}
    return S3Settings(**chosen)


def _tls(to_spark: Mapping[str, str]) -> ClientTls | None:
    chosen = {name: Path(to_spark[f"tls_{name}"]) for name in _TLS if to_spark.get(f"tls_{name}")}
    if not chosen:
        return None
    from jjq.remote.settings import ClientTls  # brings gRPC, which few executors need

    return ClientTls(**chosen)
