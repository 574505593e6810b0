"""What lies in the journal of a world, and where."""

from __future__ import annotations

from collections.abc import Iterator

from hotstore.journal import layout, records
from hotstore.journal.scan import SegmentScan
from tests.hotstore.kit import World


def batches(world: World) -> Iterator[tuple[str, layout.BatchHeader, int, list[int]]]:
    """Every batch of the journal: its file, header, position and the kinds of its records."""
    for name in sorted(world.disk.files()):
        if name.endswith(".seg"):
            scan = SegmentScan(world.disk, int(name[:20]))
            for found in scan.batches():
                assert found.body is not None
                kinds = [r.kind for r in layout.decode_records(found.body, found.header.records, None)]
                yield name, found.header, found.position, kinds


def push_batch(world: World, first: int, queue: int = 1) -> tuple[str, int]:
    """Where the journal has the push to this queue that starts at this offset."""
    for name in sorted(world.disk.files()):
        if name.endswith(".seg"):
            scan = SegmentScan(world.disk, int(name[:20]))
            for found in scan.batches():
                assert found.body is not None
                for record in layout.decode_records(found.body, found.header.records, None):
                    if record.kind in (records.PUSH, records.VALUE):
                        read = records.read_push(record.payload, single=record.kind == records.VALUE)
                        if (read.queue, read.first) == (queue, first):
                            return name, found.position
    raise AssertionError("no such push")
