"""What elements name, as columns of SQL."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import jjq


def test_objects_and_references_are_columns(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    with jjq.open(tmp_path) as client:
        client.create_queue("photos")
        client.push_file("photos", io.BytesIO(b"abc"), name="cat.png")
        client.seal("photos")
        client.push_reference("photos", "s3://bucket/model.bin", size=5)
        client.push("photos", [b"plain"], headers=[{"h": "1"}])
        client.push("photos", [b"bare"])

        rows = client.sql("SELECT offset, unnest(object(headers)) FROM photos ORDER BY offset").to_pylist()
        sizes = client.sql(
            "SELECT sum(object(headers).size)::BIGINT AS n FROM photos WHERE object(headers).type LIKE 'image/%'"
        ).to_pylist()

    nothing = dict.fromkeys(("sha256", "size", "type", "name", "uri"))
    assert rows == [
        {"offset": 0, "sha256": digest, "size": 3, "type": "image/png", "name": "cat.png", "uri": None},
        {"offset": 1, **nothing, "size": 5, "uri": "s3://bucket/model.bin"},
        {"offset": 2, **nothing},
        {"offset": 3, **nothing},
    ]
    assert sizes == [{"n": 3}]
