"""`jjq.spark.objects`: executors read what elements name, from a folder and from S3."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import jjq.spark
from coldstore.layout import paths
from coldstore.objects.open import open_objects
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import DataLoss, InvalidInput
from coldstore.shared.limits import PART_BYTES
from jjq.spark import large
from jjq.spark.large import ReadObjects
from tests.jjq.spark.serving import Serving
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = bytes(range(256)) * (PART_BYTES // 256) + b"the end"


def test_bytes_and_copies_are_added(spark: SparkSession, serving: Serving, tmp_path: Path) -> None:
    client, queue = serving.client, serving.new_queue()
    client.push_file(queue, io.BytesIO(LARGE), name="a.bin")
    client.push(queue, [b"value"])
    client.push_reference(queue, "s3://bucket/model.bin")
    frame = jjq.spark.read(spark, serving.root, queue, server=serving.address)
    digest = hashlib.sha256(LARGE).hexdigest()

    found = jjq.spark.objects(frame, serving.root, queue).orderBy("offset").collect()

    assert [bytes(row["bytes"]) if row["bytes"] is not None else None for row in found] == [
        LARGE,
        b"value",
        None,
    ]
    assert tuple(found[0][name] for name in ("sha256", "size", "media_type", "name")) == (
        digest,
        len(LARGE),
        "application/octet-stream",
        "a.bin",
    )
    assert found[1]["sha256"] is found[2]["size"] is None
    copies = jjq.spark.objects(frame.select("headers"), serving.root, queue, into=tmp_path / "copies")
    [path] = [row["path"] for row in copies.collect() if row["path"]]
    assert (Path(path).name, Path(path).read_bytes()) == (digest, LARGE)
    for wrong, why in (({"max_bytes": 0}, "max_bytes"), ({"on_error": "x"}, "on_error")):
        with pytest.raises(InvalidInput, match=why):
            jjq.spark.objects(frame, serving.root, queue, **wrong)
    with pytest.raises(InvalidInput, match="headers"):
        jjq.spark.objects(frame.select("value"), serving.root, queue)
    with pytest.raises(jjq.NotFound, match="not a jjq store"):
        jjq.spark.objects(frame, tmp_path, queue)


def named(*contents: bytes) -> pa.RecordBatch:
    """Elements that name objects of these bytes."""
    rows = []
    for data in contents:
        ref = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        rows.append([("jjq-object", json.dumps(ref).encode())])
    return pa.record_batch({"headers": pa.array(rows, pa.map_(pa.string(), pa.binary()))})


def store(folder: Path, *contents: bytes) -> None:
    for data in contents:
        place = folder / paths.large("q", hashlib.sha256(data).hexdigest())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def reads(folder: Path, **changed: Any) -> ReadObjects:
    arguments: dict[str, Any] = {"into": None, "most": 1_000, "null": False} | changed
    return ReadObjects(str(folder), S3Settings(), "q", **arguments)


def test_memory_holds_a_few_objects_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "OBJECTS_BYTES", 250)
    contents = [bytes([n]) * 100 for n in range(10)]
    store(tmp_path, *contents)

    batches = list(reads(tmp_path)(iter([named(*contents)])))

    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
    assert [each for batch in batches for each in batch.column("bytes").to_pylist()] == contents


def test_damage_and_size_fail_or_are_null(tmp_path: Path) -> None:
    store(tmp_path, b"good", b"bad")
    digest = hashlib.sha256(b"bad").hexdigest()
    (tmp_path / paths.large("q", digest)).write_bytes(b"BAD")
    rows = named(b"good", b"bad", b"gone")

    with pytest.raises(DataLoss, match=digest):
        list(reads(tmp_path)(iter([rows])))
    [batch] = reads(tmp_path, null=True)(iter([rows]))
    assert batch.column("bytes").to_pylist() == [b"good", None, None]
    assert batch.column("size").to_pylist() == [4, 3, 4]
    with pytest.raises(InvalidInput, match="into="):
        list(reads(tmp_path, most=3)(iter([rows])))
    copies = tmp_path / "copies"
    [batch] = reads(tmp_path, null=True, into=str(copies))(iter([rows]))
    assert [path.name for path in copies.iterdir()] == [hashlib.sha256(b"good").hexdigest()]


def test_the_same_on_s3(moto: S3Server) -> None:
    place = f"s3://{moto.bucket}/large-{SystemChance().token()}"
    bucket = open_objects(place, s3=moto.settings(), clock=SystemClock(), chance=SystemChance())
    bucket.put(paths.large("q", hashlib.sha256(b"far").hexdigest()), b"far")
    read = ReadObjects(place, moto.settings(), "q", None, 1_000, True)

    [batch] = pickle.loads(pickle.dumps(read))(iter([named(b"far", b"gone")]))

    assert batch.column("bytes").to_pylist() == [b"far", None]
