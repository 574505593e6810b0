"""A deleted queue in the cold store: its files, while they are kept and when they are gone."""

from __future__ import annotations

from coldstore.layout.queue_settings import Deleted
from tests.coldstore.making import Made


def test_a_deleted_queue_is_verified_until_its_files_are_removed() -> None:
    made = Made()
    for _ in range(8):
        made.push(10)
    settings = made.queue.settings
    now_us = made.clock.now_us()
    made.store.delete_queue(settings, Deleted(at_us=now_us, until_us=now_us + 1_000_000), None)
    kept = made.store.verify("orders")
    assert (kept.ok, kept.elements) == (True, 80)
    made.clock.advance(10)
    assert made.store.sweep_deleted() == ["orders"]
    gone = made.store.verify("orders")
    assert gone.ok
    assert "deleted" in gone.notes[0]
