"""Pushing files, references, and values that are too large to be values."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import lists
from coldstore.shared.attachments import Attached, Attachment, ObjectRef, Reference
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt, Stage, SubscriberInfo, queue_part
from hotstore.large.port import large_of
from hotstore.port import Store
from jjq.arguments import subscriber_id, text, whole
from jjq.client.large.reading import AsyncObjects, BlockingObjects
from jjq.client.large.sending import ObjectToSend, send_object
from jjq.client.loop_thread import Portal
from jjq.client.payload import make_push, to_payload


class LargeClient:
    """The verbs of large objects; `AsyncClient` has a store for them."""

    _store: Store
    _clock: Clock
    _chance: Chance
    _object_seconds: float
    _object_bytes_min: int
    _portal: Portal | None = None  # of the blocking face, whose elements are read by blocking calls

    async def push_file(
        self,
        queue: str,
        file: str | os.PathLike[str] | IO[bytes],
        *,
        key: bytes | str | None = None,
        media_type: str | None = None,
        name: str | None = None,
        headers: Mapping[str, bytes | str] | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
    ) -> Receipt:
        """Push a file as one element: a path, or a file that was opened for bytes, from where it is to its end.

        Its bytes become an object of the queue, which is durable before the element is acknowledged, whatever the
        `stage`. They are stored once, however often they are pushed. The media type follows from the name if it is
        not given; of the name only the last part is kept. Memory holds some pieces of the file, never all of it.
        """
        queue = text("queue", queue)
        with await asyncio.to_thread(ObjectToSend, file) as source:
            ref = source.ref(
                None if media_type is None else text("media_type", media_type),
                None if name is None else text("name", name),
            )
            await self._send(queue, source)
            ref = replace(ref, sha256=source.sha256)
        identity = (producer, sequence, expected_offset)
        return await self._push_naming(queue, ref, key, headers, identity, stage)

    async def push_reference(
        self,
        queue: str,
        uri: str,
        *,
        size: int | None = None,
        sha256: str | None = None,
        key: bytes | str | None = None,
        media_type: str | None = None,
        name: str | None = None,
        headers: Mapping[str, bytes | str] | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
    ) -> Receipt:
        """Push the address of something that lies elsewhere, such as s3://bucket/model.bin; jjq does not look there.

        `size` and `sha256` are for readers, who can check what they find.
        """
        reference = Reference(
            text("uri", uri),
            None if size is None else whole("size", size),
            "" if sha256 is None else text("sha256", sha256),
            "" if media_type is None else text("media_type", media_type),
            "" if name is None else text("name", name),
        )
        identity = (producer, sequence, expected_offset)
        return await self._push_naming(text("queue", queue), reference, key, headers, identity, stage)

    async def _push_naming(
        self,
        queue: str,
        named: Attachment,
        key: bytes | str | None,
        headers: Mapping[str, bytes | str] | None,
        identity: tuple[str | None, int | None, int | None],
        stage: Stage,
    ) -> Receipt:
        payload = to_payload([b""], None if key is None else [key], None if headers is None else [headers])
        push = make_push(queue, payload, *identity, stage)
        return await self._store.append(push._replace(objects=((0, named),)))

    async def _send(self, queue: str, source: ObjectToSend) -> None:
        seconds = self._object_seconds
        await send_object(large_of(self._store), queue, source, self._clock, self._chance, seconds)

    def _has_large_values(self, push: Push) -> bool:
        return bool(large_rows(push.payload, self._object_bytes_min))

    async def _with_large_values_moved(self, push: Push) -> Push:
        """The push with its large values stored as objects, which its elements name.

        Values of text and JSON stay values: they are checked, and SQL and Spark look into them.
        """
        if (await self._store.get_queue(push.queue)).content != "bytes":
            return push
        rows = large_rows(push.payload, self._object_bytes_min)
        attached: list[Attached] = []
        values = push.payload.column("value")
        is_text = pa.types.is_string(values.type)
        for row in sorted(rows):
            value: Any = values[row].as_py()
            data = value.encode() if is_text else value
            with await asyncio.to_thread(ObjectToSend, data) as source:
                kind = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
                await self._send(push.queue, source)
                attached.append((row, ObjectRef(source.sha256, source.size, kind)))
        empty: Any = "" if is_text else b""
        kept = [empty if row in rows else value for row, value in enumerate(values.to_pylist())]
        at = push.payload.schema.get_field_index("value")
        column = lists.array(kept, values.type)
        payload = push.payload.set_column(at, push.payload.schema.field(at), column)
        return push._replace(payload=payload, objects=tuple(attached))

    def _objects(self, queue: str) -> AsyncObjects | BlockingObjects:
        """Reads the objects that elements of a queue name."""
        made = AsyncObjects(large_of(self._store), queue)
        return made if self._portal is None else BlockingObjects(made, self._portal)

    def _objects_of(self, subscriber: SubscriberInfo | str) -> AsyncObjects | BlockingObjects:
        return self._objects(queue_part(subscriber_id(subscriber)))

    def _use_blocking(self, portal: Portal) -> None:
        """From now on elements are read by blocking calls: this client is behind the blocking face."""
        self._portal = portal


def large_rows(payload: pa.RecordBatch, most: int) -> set[int]:
    """The elements whose values have more than `most` bytes."""
    if payload.get_total_buffer_size() <= most:
        return set()
    lengths = lists.numbers(pc.binary_length(payload.column("value")))
    return set(np.flatnonzero(lengths > most).tolist())


def check_minimum(size: int) -> int:
    """From how many bytes on a value becomes an object."""
    if size < 1:
        raise InvalidInput(f"object_bytes_min is {size}: give a number of bytes above 0")
    return size
