"""`jjq.spark.objects`: what elements name, read by the executors themselves from a folder or from S3, without jars.

A row that names an object gets its sha256, size, media_type and name, and either its bytes or the path of a copy. Bytes
are read part by part and checked against the digest. An executor holds one object, or a few small ones together:
rows are handed to Spark as soon as they have `OBJECTS_BYTES`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from coldstore.large.download import damaged, read_part, steps
from coldstore.layout import paths
from coldstore.objects.settings import S3Settings
from coldstore.shared.attachments import OBJECT, REFERENCE, ObjectRef, parse_object
from coldstore.shared.errors import DataLoss, InvalidInput
from jjq.spark import cold
from jjq.spark.columns import OnError
from jjq.spark.errors import one_line
from jjq.spark.jobs.tasks import map_in_arrow
from jjq.spark.limits import OBJECT_BYTES_DEFAULT, OBJECT_BYTES_MAX, OBJECTS_BYTES
from jjq.spark.scan.native import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMES: Final = ("sha256", "size", "media_type", "name")
_FIELDS: Final = "sha256 string, size bigint, media_type string, name string"
_ON_ERROR: Final = ("fail", "null")


def objects(
    frame: DataFrame,
    root: str | os.PathLike[str],
    queue: str,
    *,
    into: str | os.PathLike[str] | None = None,
    max_bytes: int = OBJECT_BYTES_DEFAULT,
    on_error: OnError = "fail",
    s3: S3Settings | None = None,
) -> DataFrame:
    """`frame`, elements of `queue` with their headers, and columns sha256, size, media_type, name and bytes.

    All but bytes are null where an element names no object; its bytes are then those of its value. An object of more
    than `max_bytes` fails: choose rows by size first, or give a folder as `into`. Then a column path is in place of
    bytes, of a copy in this folder of the executor, named by its sha256. `on_error="null"` leaves null what is
    missing or damaged. `root` is the cold store: a folder, or s3://BUCKET/PREFIX.
    """
    if "headers" not in frame.columns:
        raise InvalidInput("the frame has no column headers, which names the objects: select it as well")
    added = (*_NAMES, "bytes" if into is None else "path")
    if taken := sorted(set(added) & set(frame.columns)):
        raise InvalidInput(f"the frame has a column {taken[0]} already: rename it")
    if not 0 < max_bytes <= OBJECT_BYTES_MAX:
        raise InvalidInput(f"max_bytes is {max_bytes}: Spark holds 1 to {OBJECT_BYTES_MAX} bytes in a row")
    if on_error not in _ON_ERROR:
        raise InvalidInput(f"on_error is {on_error!r}: use {' or '.join(_ON_ERROR)}")
    place = absolute(os.fspath(root))
    settings = s3 or S3Settings()
    cold.store(place, settings)  # refused here rather than by every executor
    folder = None if into is None else str(Path(into).absolute())
    work = ReadObjects(place, settings, paths.check_name(queue), folder, max_bytes, on_error == "null")
    fields = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields)
    last = "bytes binary" if into is None else "path string"
    return map_in_arrow(frame, work, f"{fields}, {_FIELDS}, {last}")


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """What an executor does with its rows. It travels there by itself, without connections."""

    root: str
    s3: S3Settings
    queue: str
    into: str | None
    most: int
    null: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_line():
            for batch in batches:
                yield from self._added(batch)

    def _added(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        headers = batch.column("headers")
        values = batch.column("value") if "value" in batch.schema.names else None
        first, held = 0, 0
        rows: list[tuple[Any, ...]] = []
        for row in range(batch.num_rows):
            named = dict(headers[row].as_py() or ())
            value = None if values is None or REFERENCE in named else values[row].as_py()
            rows.append(self._one(named.get(OBJECT), value))
            last = rows[-1][-1]
            held += len(last) if isinstance(last, bytes) else 0
            if held >= OBJECTS_BYTES:
                yield self._with(batch.slice(first, row + 1 - first), rows)
                first, held, rows = row + 1, 0, []
        yield self._with(batch.slice(first), rows)

    def _one(self, raw: bytes | None, value: Any) -> tuple[Any, ...]:
        """The new columns of a row."""
        if raw is None:
            whole = value.encode() if isinstance(value, str) else value
            return None, None, None, None, whole if self.into is None and isinstance(whole, bytes) else None
        ref = parse_object(raw)
        try:
            found: Any = self._read(ref) if self.into is None else self._copy(ref, Path(self.into))
        except DataLoss:
            if not self.null:
                raise
            found = None
        return ref.sha256, ref.size, ref.media_type or None, ref.name or None, found

    def _read(self, ref: ObjectRef) -> bytes:
        if ref.size > self.most:
            raise InvalidInput(
                f"object {ref.sha256} has {ref.size} bytes, more than max_bytes, {self.most}: raise it, choose rows by "
                f"size, or have copies made with into="
            )
        parts: list[bytes] = []
        self._pass(ref, parts.append)
        return b"".join(parts)

    def _copy(self, ref: ObjectRef, folder: Path) -> str:
        """A copy under its digest, whole as soon as it is there; one that is there already is used."""
        folder.mkdir(parents=True, exist_ok=True)
        wanted = folder / ref.sha256
        if wanted.is_file() and wanted.stat().st_size == ref.size:
            return str(wanted)
        part = folder / f".{ref.sha256}.{os.getpid()}"
        try:
            with part.open("wb") as file:
                self._pass(ref, file.write)
            part.replace(wanted)
        finally:
            part.unlink(missing_ok=True)
        return str(wanted)

    def _pass(self, ref: ObjectRef, take: Callable[[bytes], Any]) -> None:
        """All bytes to `take`; `DataLoss` if they are not what the digest says."""
        store, digest = cold.objects(self.root, self.s3), hashlib.sha256()
        for start, end in steps(0, ref.size):
            data = read_part(store, self.queue, ref.sha256, start, end)
            digest.update(data)
            take(data)
        if digest.hexdigest() != ref.sha256:
            raise damaged(paths.large(self.queue, ref.sha256))

    def _with(self, batch: pa.RecordBatch, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        kinds = (pa.string(), pa.int64(), pa.string(), pa.string())
        last = pa.binary() if self.into is None else pa.string()
        added = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate((*kinds, last))]
        names = [*batch.schema.names, *_NAMES, "bytes" if self.into is None else "path"]
        return pa.RecordBatch.from_arrays([*batch.columns, *added], names=names)
