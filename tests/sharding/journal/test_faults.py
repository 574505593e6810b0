"""The journal on a real S3 server whose network loses, delays and repeats (FAULTS rows 13 to 16)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coldstore.layout import paths
from coldstore.objects.s3 import S3Objects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from hotstore.journal.port import Poisoned, Record
from sharding.documents import tenure
from sharding.journal import objects
from sharding.journal.fencing import FencingWalk
from sharding.journal.object_journal import ObjectJournal
from sharding.limits import JOURNAL_TRIM_SECONDS
from tests.servers.faultproxy import FaultProxy
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until
from tests.sharding.journals import open_journal, recovered, write

pytestmark = pytest.mark.xdist_group("sharding-faults")


class Seat:
    """A node behind the proxy, and the same store without it."""

    def __init__(self, seaweed: S3Server, proxy: FaultProxy) -> None:
        prefix = f"t-{SystemChance().token()}"
        self.direct: S3Objects = seaweed.objects(prefix)
        self.behind: S3Objects = seaweed.at(proxy.endpoint).objects(prefix)
        self.journals = f"{prefix}/{paths.journal_folder('n1')}"
        self.tenures = f"{prefix}/{paths.TENURES}"

    def open(self) -> ObjectJournal:
        journal = open_journal(self.behind)
        recovered(journal)
        return journal

    def read(self) -> list[bytes]:
        """What a taker finds."""
        walk = FencingWalk(self.direct, "n1", 0, 1, b"t" * 16)
        batches = objects.batches(walk.batches(), None)
        return [bytes(record.payload) for batch in batches for record in batch.records]

    def end(self) -> None:
        found = tenure.read(self.direct, "n1")
        assert found is not None
        tenure.end(self.direct, found, "n2")


@pytest.fixture
def seat(seaweed: S3Server, proxy: FaultProxy) -> Iterator[Seat]:
    yield Seat(seaweed, proxy)
    proxy.heal()


def test_a_store_that_fails_now_and_then_costs_time_and_nothing_else(seat: Seat, proxy: FaultProxy) -> None:
    journal = seat.open()
    for nth in range(1, 40, 4):
        proxy.fail(503, "SlowDown", method="PUT", prefix=seat.journals, nth=nth)
        proxy.lose_reply(method="PUT", prefix=seat.journals, nth=nth + 1)
        proxy.fail_after(500, method="PUT", prefix=seat.journals, nth=nth + 2)
        proxy.lose_reply(method="GET", prefix=seat.tenures, nth=nth)
    values = [b"%d" % n for n in range(12)]
    write(journal, *values)
    journal.close()
    assert seat.read() == values, "each is there once"


def test_puts_that_arrive_out_of_order_are_acknowledged_in_order(seat: Seat, proxy: FaultProxy) -> None:
    journal = seat.open()
    held = proxy.hold(method="PUT", prefix=seat.journals)
    first = journal.append([Record(1, b"slow")])
    held.wait_arrived()
    journal.append([Record(1, b"quick")])
    journal._flying[1].result(10)  # the second is there, the first is not
    assert not journal._flying[0].done()
    assert [n for n in (first, first + 1) if _is_there(seat, n)] == [first + 1]
    held.release()
    journal.sync()
    journal.close()
    assert seat.read() == [b"slow", b"quick"]


def _is_there(seat: Seat, number: int) -> bool:
    key = paths.journal("n1", number)
    return any(info.key == key for info in seat.direct.list(paths.journal_folder("n1")))


def test_a_put_that_arrives_after_the_takeover_is_refused(seat: Seat, proxy: FaultProxy) -> None:
    journal = seat.open()
    write(journal, b"a")
    held = proxy.hold(method="PUT", prefix=seat.journals)
    journal.append([Record(1, b"late")])
    held.wait_arrived()
    journal.append([Record(1, b"behind")])
    journal._flying[1].result(10)
    seat.end()
    assert seat.read() == [b"a"]
    held.release()
    with pytest.raises(Poisoned):
        journal.sync()
    journal.close()
    assert seat.read() == [b"a"], "what arrived behind the fence is not read"


def test_a_reply_that_comes_after_the_takeover_is_no_acknowledgement(seat: Seat, proxy: FaultProxy) -> None:
    journal = seat.open()
    held = proxy.hold(reply=True, method="PUT", prefix=seat.journals)
    journal.append([Record(1, b"a")])
    held.wait_arrived()
    seat.end()
    assert seat.read() == [b"a"], "it was there before the fence"
    held.release()
    with pytest.raises(Poisoned):
        journal.sync()
    journal.close()


def test_a_put_that_is_repeated_after_a_trim_is_not_read(seat: Seat, proxy: FaultProxy) -> None:
    """The network delivers a request once more, long after its object was trimmed."""
    clock = ManualClock()
    journal = open_journal(seat.behind, clock=clock)
    recovered(journal)
    numbers = write(journal, b"a", b"b")
    key = paths.journal("n1", numbers[0])
    copy = seat.direct.get(key).data
    clock.advance(JOURNAL_TRIM_SECONDS)
    journal.trim(numbers[1])
    journal.close()
    seat.direct.put_if_absent(key, copy)
    again = open_journal(seat.direct)
    assert recovered(again) == [[(1, b"b")]]
    wait_until(lambda: not _is_there(seat, numbers[0]), "the start has swept it")
    again.close()
