"""S3 when requests and replies get lost: every put takes effect once, and its outcome is told truly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from coldstore.objects.s3 import S3Objects
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, Denied, NotFound, Unavailable
from tests.servers.faultproxy import FaultProxy
from tests.servers.s3 import S3Server

PUTS = ["put", "put_if_absent", "put_if_match"]


class Meanwhile(ManualClock):
    """A clock on which other things happen while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.then: Callable[[], object] | None = None

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)
        if self.then is not None:
            happen, self.then = self.then, None
            happen()


@dataclass
class Bench:
    """A store behind the proxy, and the same one behind the proxy's back."""

    objects: S3Objects
    direct: S3Objects
    impatient: S3Objects  # as `objects`, but waits for no reply longer than half a second
    clock: Meanwhile
    proxy: FaultProxy

    def write(self, verb: str, *, impatient: bool = False) -> str:
        """Put so that the condition, if any, holds."""
        objects = self.impatient if impatient else self.objects
        if verb == "put_if_match":
            return objects.put_if_match("key", b"ours", self.direct.head("key").etag)
        return str(getattr(objects, verb)("key", b"ours"))

    def prepare(self, verb: str) -> None:
        if verb == "put_if_match":
            self.direct.put("key", b"before")

    def accepted(self) -> int:
        """How many puts the real server took."""
        return self.proxy.count(method="PUT", upstream=200)


@pytest.fixture
def bench(seaweed: S3Server, proxy: FaultProxy) -> Bench:
    prefix, clock = f"t-{SystemChance().token()}", Meanwhile()
    far = seaweed.at(proxy.endpoint)
    impatient = far.objects(prefix, clock=clock, settings=far.settings(read_seconds=0.5))
    return Bench(far.objects(prefix, clock=clock), seaweed.objects(prefix), impatient, clock, proxy)


@pytest.mark.parametrize("verb", PUTS)
@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (502, ""), (503, "SlowDown"), (503, ""), (504, ""), (429, ""), (409, "Busy"),
     (409, "ConditionalRequestConflict"), (400, "RequestTimeout"), (400, "SlowDown")],
)  # fmt: skip
def test_a_put_that_was_turned_away_is_tried_again(bench: Bench, verb: str, status: int, code: str) -> None:
    bench.prepare(verb)
    bench.proxy.fail(status, code, method="PUT", times=2)

    etag = bench.write(verb)

    assert (bench.direct.get("key").data, bench.direct.head("key").etag) == (b"ours", etag)
    assert bench.accepted() == 1
    assert len(bench.clock.slept) == 2
    assert bench.clock.slept[0] < bench.clock.slept[1]


@pytest.mark.parametrize("verb", PUTS)
@pytest.mark.parametrize("lost", ["connection", "500", "412"])
def test_a_put_whose_reply_was_lost_is_recognised_and_applied_once(
    bench: Bench, verb: str, lost: str
) -> None:
    bench.prepare(verb)
    if lost == "connection":
        bench.proxy.lose_reply(method="PUT")
    else:
        bench.proxy.fail_after(int(lost), "PreconditionFailed" if lost == "412" else "", method="PUT")

    etag = bench.write(verb)

    assert (bench.direct.get("key").data, bench.direct.head("key").etag) == (b"ours", etag)
    assert bench.proxy.count(method="PUT") == bench.accepted() == 1


@pytest.mark.parametrize("verb", PUTS)
def test_a_put_that_timed_out_and_took_effect_is_recognised(bench: Bench, verb: str) -> None:
    bench.prepare(verb)
    held = bench.proxy.hold(method="PUT", reply=True)

    etag = bench.write(verb, impatient=True)
    held.release()
    held.wait_done()

    assert (bench.direct.get("key").data, bench.direct.head("key").etag) == (b"ours", etag)
    assert bench.accepted() == 1


@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_match"])
def test_a_put_that_timed_out_and_arrives_late_changes_nothing(bench: Bench, verb: str) -> None:
    bench.prepare(verb)
    held = bench.proxy.hold(method="PUT")

    etag = bench.write(verb, impatient=True)
    bench.direct.put_if_match("key", b"of the next owner", etag)
    held.release()
    held.wait_done()

    assert bench.direct.get("key").data == b"of the next owner"
    assert bench.proxy.count(method="PUT", upstream=412) == bench.accepted() == 1


@pytest.mark.parametrize("verb", PUTS)
def test_a_lost_request_is_sent_again(bench: Bench, verb: str) -> None:
    bench.prepare(verb)
    bench.proxy.lose_request(method="PUT", times=3)

    bench.write(verb)

    assert bench.direct.get("key").data == b"ours"
    assert bench.accepted() == 1


def test_another_writer_who_was_first_is_a_conflict_even_after_doubt(bench: Bench) -> None:
    bench.proxy.lose_request(method="PUT")
    bench.clock.then = lambda: bench.direct.put_if_absent("key", b"theirs")

    with pytest.raises(Conflict, match="exists already"):
        bench.objects.put_if_absent("key", b"ours")

    assert bench.direct.get("key").data == b"theirs"


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_swap_in_doubt_that_was_swapped_again_is_unknown(bench: Bench, lost: str) -> None:
    etag = bench.direct.put("key", b"before")
    getattr(bench.proxy, f"lose_{lost}")(method="PUT")
    bench.clock.then = lambda: bench.direct.put("key", b"theirs")

    with pytest.raises(Unavailable, match="cannot tell whether key was written"):
        bench.objects.put_if_match("key", b"ours", etag)

    assert bench.direct.get("key").data == b"theirs"


def test_a_swap_in_doubt_whose_object_is_gone_is_unknown(bench: Bench) -> None:
    etag = bench.direct.put("key", b"before")
    bench.proxy.lose_reply(method="PUT")
    bench.clock.then = lambda: bench.direct.delete("key")

    with pytest.raises(Unavailable, match="cannot tell whether key was written"):
        bench.objects.put_if_match("key", b"ours", etag)


def test_a_swap_without_doubt_that_lost_is_a_conflict(bench: Bench) -> None:
    etag = bench.direct.put("key", b"before")
    bench.proxy.fail(409, "ConditionalRequestConflict", method="PUT")
    bench.clock.then = lambda: bench.direct.put("key", b"theirs")

    with pytest.raises(Conflict, match="is not the version"):
        bench.objects.put_if_match("key", b"ours", etag)


@pytest.mark.parametrize(("status", "code"), [(412, "PreconditionFailed"), (404, "NoSuchKey")])
def test_a_swap_of_a_missing_object_is_a_conflict_however_the_store_says_it(
    bench: Bench, status: int, code: str
) -> None:
    bench.proxy.fail(status, code, method="PUT")

    with pytest.raises(Conflict):
        bench.objects.put_if_match("key", b"ours", '"etag"')


def test_a_refusal_after_doubt_does_not_claim_that_nothing_was_written(bench: Bench) -> None:
    bench.proxy.lose_reply(method="PUT")
    bench.proxy.fail(403, "AccessDenied", method="HEAD", times=None)

    with pytest.raises(Unavailable, match="an earlier attempt may have been written"):
        bench.objects.put("key", b"ours")


def test_a_refusal_without_doubt_is_told_as_it_is(bench: Bench) -> None:
    bench.proxy.fail(403, "AccessDenied", method="PUT")

    with pytest.raises(Denied):
        bench.objects.put("key", b"ours")


@pytest.mark.parametrize("verb", PUTS)
def test_a_used_up_budget_is_unavailable(bench: Bench, verb: str) -> None:
    bench.prepare(verb)
    bench.proxy.fail(503, "SlowDown", method="PUT", times=None)

    with pytest.raises(Unavailable, match=r"cannot write key: 503 SlowDown injected, for 30 s"):
        bench.write(verb)

    assert 25 < bench.clock.monotonic() <= 30
    assert bench.proxy.count(method="PUT") == len(bench.clock.slept) + 1
    assert bench.accepted() == 0


def test_an_outage_is_unavailable_and_nothing_is_needed_to_recover(bench: Bench) -> None:
    bench.direct.put("key", b"1")

    with bench.proxy.outage():
        for use in (
            lambda: bench.objects.get("key"),
            lambda: bench.objects.put("key", b"2"),
            lambda: list(bench.objects.list("")),
            lambda: bench.objects.head("key"),
            lambda: bench.objects.delete("key"),
        ):
            with pytest.raises(Unavailable):
                use()

    assert bench.objects.get("key").data == b"1"


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_truncated_body_is_read_again(bench: Bench, count: int) -> None:
    bench.direct.put("key", b"0123456789")
    bench.proxy.truncate(count, method="GET", times=2)

    assert bench.objects.get("key").data == b"0123456789"
    assert bench.objects.get("key", 2, 5).data == b"234"
    assert bench.proxy.count(method="GET") == 4


def test_a_reading_that_times_out_is_tried_again(bench: Bench) -> None:
    bench.direct.put("key", b"1")
    held = bench.proxy.hold(method="GET")

    assert bench.impatient.get("key").data == b"1"

    held.release()
    held.wait_done()


def test_every_page_of_a_listing_is_retried_on_its_own(seaweed: S3Server, bench: Bench) -> None:
    for n in range(6):
        bench.direct.put(f"a/{n}", b"")
    prefix = repr(bench.direct).removeprefix(f"s3://{seaweed.bucket}/")
    far = seaweed.at(bench.proxy.endpoint)
    bench.proxy.fail(500, method="LIST", nth=2)
    bench.proxy.lose_reply(method="LIST", nth=4)

    objects = far.objects(prefix, clock=bench.clock, page_keys=2)
    found = [info.key for info in objects.list("a/")]

    assert found == [f"a/{n}" for n in range(6)]
    assert bench.proxy.count(method="LIST") == 5


def test_a_delete_whose_reply_was_lost_is_repeated(bench: Bench) -> None:
    bench.direct.put("key", b"1")
    bench.proxy.lose_reply(method="DELETE")

    bench.objects.delete("key")

    with pytest.raises(NotFound):
        bench.direct.head("key")
    assert bench.proxy.count(method="DELETE") == 2


def test_with_a_third_of_all_requests_failing_every_put_takes_effect_once(bench: Bench) -> None:
    chance = SeededChance(7)
    faults = [
        lambda nth: bench.proxy.fail(500, method="PUT", nth=nth),
        lambda nth: bench.proxy.fail(503, "SlowDown", method="PUT", nth=nth),
        lambda nth: bench.proxy.lose_request(method="PUT", nth=nth),
        lambda nth: bench.proxy.lose_reply(method="PUT", nth=nth),
        lambda nth: bench.proxy.fail_after(500, method="PUT", nth=nth),
    ]
    for nth in range(1, 200):
        if chance.jitter() < 1 / 3:
            faults[int(chance.jitter() * len(faults))](nth)

    for n in range(30):
        etag = bench.objects.put_if_absent(f"key/{n:02d}", b"first %d" % n)
        bench.objects.put_if_match(f"key/{n:02d}", b"second %d" % n, etag)

    found = [bench.direct.get(info.key).data for info in bench.direct.list("key/")]
    assert found == [b"second %d" % n for n in range(30)]
    assert bench.accepted() == 60
    assert bench.proxy.count(method="PUT") > 75
