"""Notes and sweeps: what nobody named goes, what anybody may name stays."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from coldstore.large.notes import UploadNotes
from coldstore.large.sweep import SweptUploads, sweep_uploads
from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import SWEEP_GRACE_SECONDS
from tests.coldstore.large.making import SMALL, digest, upload

SHA = digest(SMALL)
GRACE_US = int(SWEEP_GRACE_SECONDS * 1_000_000)


class Place:
    """A queue's objects, its notes and a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.objects: ObjectStore = MemoryObjects(self.clock)
        self.notes = UploadNotes(self.objects, "q", self.clock)
        self.looked: list[int] = []

    def store(self) -> None:
        assert not self.notes.begin(SHA, len(SMALL), 7)
        upload(self.objects, SMALL)

    def sweep(self, *named: str) -> SweptUploads:
        def told(from_offset: int) -> Collection[str]:
            self.looked.append(from_offset)
            return named

        return sweep_uploads(self.objects, "q", self.clock, self.clock.now_us() - GRACE_US, told)


def test_an_upload_goes_after_the_grace_period_and_not_before() -> None:
    place = Place()
    place.store()
    place.clock.advance(SWEEP_GRACE_SECONDS - 1)
    assert place.sweep() == SweptUploads()
    assert place.notes.find(SHA) is not None

    place.clock.advance(2)

    assert place.sweep() == SweptUploads(removed=1)
    assert list(place.objects.list("")) == []
    assert place.looked == [7]  # elements before it cannot name the object


def test_an_object_that_an_element_names_stays_for_good() -> None:
    place = Place()
    place.store()
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)

    assert place.sweep(SHA) == SweptUploads(named=1)
    assert place.sweep() == SweptUploads()

    assert place.notes.begin(SHA, len(SMALL), 9)  # nothing is to be sent, and no note is made
    assert [info.key for info in place.objects.list("")] == [paths.large("q", SHA)]


def test_a_push_renews_the_note_so_that_no_sweep_comes_between() -> None:
    place = Place()
    place.store()
    place.clock.advance(SWEEP_GRACE_SECONDS - 1)
    place.notes.check_named(SHA, len(SMALL))
    place.clock.advance(2)

    assert place.sweep() == SweptUploads()
    place.notes.forget(SHA)

    assert place.notes.find(SHA) is not None


def test_a_sweep_that_came_first_keeps_the_push_out_until_it_is_done() -> None:
    place = Place()
    place.store()
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)
    failpoint.arm("object.swept")
    with pytest.raises(Unavailable):
        place.sweep()  # the object is gone, the note is not
    with pytest.raises(Unavailable, match="being removed"):
        place.notes.begin(SHA, len(SMALL), 9)
    with pytest.raises(NotFound, match="upload it first"):
        place.notes.check_named(SHA, len(SMALL))
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)

    assert place.sweep() == SweptUploads(removed=1)
    assert not place.notes.begin(SHA, len(SMALL), 9)


def test_who_renews_first_keeps_the_object() -> None:
    place = Place()
    place.store()
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)
    note = place.notes.read(SHA)
    assert note is not None
    place.notes.check_named(SHA, len(SMALL))

    assert not place.notes.mark(SHA, note)


def test_parts_of_a_broken_upload_are_given_up() -> None:
    place = Place()
    place.notes.begin(SHA, len(SMALL), 0)
    key = paths.large("q", SHA)
    parts_of(place.objects).begin_parts(key)
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)

    assert place.sweep() == SweptUploads(removed=1)
    assert list(parts_of(place.objects).open_uploads(key)) == []


def test_a_note_that_cannot_be_read_removes_nothing() -> None:
    place = Place()
    place.store()
    place.objects.put(paths.upload("q", SHA), b"{}")
    place.clock.advance(2 * SWEEP_GRACE_SECONDS)

    assert place.sweep() == SweptUploads(doubtful=1)
    assert place.notes.find(SHA) is not None


def test_a_size_that_is_not_the_objects_is_refused() -> None:
    place = Place()
    place.store()

    with pytest.raises(InvalidInput, match="correct the size"):
        place.notes.check_named(SHA, 1)
    assert not place.notes.begin(SHA, 1, 0)  # the upload itself will be refused
