"""Reading starting points: every form, and nothing but InvalidInput for anything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coldstore.shared.batch import to_us
from coldstore.shared.errors import InvalidInput, NotFound, OutOfRange
from coldstore.shared.limits import OFFSET_MAX
from coldstore.start_points import FORMS, Start, parse, resolve
from hotstore.port import Resolved

NOW = 1_767_225_600_000_000
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start("beginning")),
        ("end", Start("end")),
        ("offset:0", Start("offset", 0)),
        ("offset:-3", Start("offset", -3)),
        (f"offset:{OFFSET_MAX}", Start("offset", OFFSET_MAX)),
        ("last:0", Start("last", 0)),
        ("last:100", Start("last", 100)),
        ("time:2026-01-01T00:00:00Z", Start("time", NOW)),
        ("time:2026-01-01T02:00:00+02:00", Start("time", NOW)),
        ("time:2026-01-01T00:00:00.000001+00:00", Start("time", NOW + 1)),
        ("time:1969-12-31T23:59:59Z", Start("time", -1_000_000)),
        ("ago:0s", Start("ago", 0)),
        ("ago:7d", Start("ago", 7 * DAY)),
        ("ago:1.5h", Start("ago", 5_400_000_000)),
        ("ago:3us", Start("ago", 3)),
        ("ago:2ms", Start("ago", 2_000)),
        ("ago:2m", Start("ago", 120_000_000)),
        ("ago:2w", Start("ago", 14 * DAY)),
        ("subscriber:billing", Start("subscriber", name="billing")),
    ],
)
def test_every_form_is_read(text: str, start: Start) -> None:
    assert parse(text) == start


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sometime", FORMS),
        ("time:2026-01-01", "has no zone: add one, for instance time:2026-01-01T00:00:00Z"),
        ("time:2026-01-01T00:00:00", "has no zone: add one, for instance time:2026-01-01T00:00:00Z"),
        ("time:yesterday", "time:2026-01-31T12:00:00Z"),
        ("ago:-7d", "is negative, so it lies in the future"),
        ("ago:7years", "us, ms, s, m, h, d, w"),
        ("offset:many", "offset:1000"),
        ("last:-1", "last:100"),
        ("subscriber:a b", "subscriber name 'a b' is not allowed"),
    ],
)
def test_an_error_says_what_to_write_instead(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse(text)
    assert says in str(error.value)


kinds = st.sampled_from(["beginning", "end", "offset:", "time:", "ago:", "last:", "subscriber:", ""])
rests = st.one_of(
    st.text(max_size=30),
    st.text("0123456789.-+eE:TZWdhmsu ", max_size=30),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes().map(datetime.isoformat),
)


@given(kinds, rests)
@example("time:", "0001-01-01T00:00:00+23:59")
@example("time:", "9999-12-31T23:59:59.999999-23:59")
@example("ago:", "9" * 18 + "w")
@example("offset:", "٣")
def test_whatever_is_written_it_is_read_or_refused(kind: str, rest: str) -> None:
    try:
        start = parse(kind + rest)
    except InvalidInput as refused:
        text = str(refused)
    else:
        text = start.kind
        assert isinstance(start.number, int)
    assert text.isprintable()


zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=zones))  # noqa: DTZ001
def test_a_time_is_read_to_the_microsecond_in_any_zone(time: datetime) -> None:
    assert parse(f"time:{time.isoformat()}").number == to_us(time)
    assert parse(f"time:{time.astimezone(UTC).isoformat()}").number == to_us(time)


class Line:
    """A queue with elements at given times."""

    def __init__(self, times: list[int], first: int = 0, subscribers: dict[str, int] | None = None) -> None:
        self.times = times
        self.first_offset = first
        self.next_offset = first + len(times)
        self._subscribers = subscribers or {}

    def now_us(self) -> int:
        return NOW

    async def offset_at(self, timestamp_us: int) -> int | None:
        at = [n for n, time in enumerate(self.times) if time >= timestamp_us]
        return self.first_offset + at[0] if at else None

    async def timestamp_of(self, offset: int) -> int | None:
        return self.times[offset - self.first_offset] if offset < self.next_offset else None

    def position_of(self, subscriber: str) -> int:
        if subscriber not in self._subscribers:
            raise NotFound(subscriber)
        return self._subscribers[subscriber]


LINE = Line([NOW - 3 * DAY, NOW - 2 * DAY, NOW - 2 * DAY, NOW - DAY], first=10, subscribers={"x": 12})


@pytest.mark.parametrize(
    ("text", "offset", "rule"),
    [
        ("beginning", 10, "beginning"),
        ("end", 14, "end"),
        ("offset:10", 10, "offset"),
        ("offset:14", 14, "offset"),
        ("last:0", 14, "last"),
        ("last:4", 10, "last"),
        ("last:5", 10, "last: fewer elements → beginning"),
        ("ago:2d", 11, "ago"),
        ("ago:47h", 13, "ago"),
        ("ago:4d", 10, "ago: before all → beginning"),
        ("ago:1h", 14, "ago: after all → end"),
        ("ago:99999999999999999w", 10, "ago: before all → beginning"),
        ("time:2025-12-29T00:00:00Z", 10, "time"),
        ("time:2025-12-29T00:00:00.000001Z", 11, "time"),
        ("time:1900-01-01T00:00:00Z", 10, "time: before all → beginning"),
        ("time:2999-01-01T00:00:00Z", 14, "time: after all → end"),
        ("subscriber:x", 12, "subscriber"),
    ],
)
async def test_every_form_is_resolved_and_says_which_rule_fired(text: str, offset: int, rule: str) -> None:
    timestamp = None if offset == 14 else LINE.times[offset - 10]
    assert await resolve(parse(text), LINE) == Resolved(offset, timestamp, 10, 14, rule)


@pytest.mark.parametrize(
    ("text", "clamped", "rule"),
    [
        ("offset:9", 10, "offset: before all → beginning"),
        ("offset:-1", 10, "offset: before all → beginning"),
        ("offset:15", 14, "offset: after all → end"),
    ],
)
async def test_an_offset_outside_names_the_valid_range_unless_clamped(
    text: str, clamped: int, rule: str
) -> None:
    with pytest.raises(OutOfRange, match=r"outside 10\.\.14") as error:
        await resolve(parse(text), LINE)
    assert (error.value.first, error.value.next) == (10, 14)
    resolved = await resolve(parse(text), LINE, clamp=True)
    assert (resolved.offset, resolved.rule) == (clamped, rule)


@pytest.mark.parametrize(
    "text", ["beginning", "end", "offset:0", "last:7", "ago:1d", "time:2026-01-01T00:00:00Z"]
)
async def test_in_an_empty_queue_everything_is_offset_0(text: str) -> None:
    resolved = await resolve(parse(text), Line([]))
    assert (resolved.offset, resolved.timestamp_us, resolved.timestamp) == (0, None, None)


async def test_a_subscriber_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        await resolve(parse("subscriber:nobody"), LINE)


@given(st.lists(st.integers(0, 50), max_size=20).map(sorted), st.integers(-5, 60))
async def test_a_time_is_the_first_element_not_before_it(times: list[int], at: int) -> None:
    resolved = await resolve(Start("time", at), Line(times))
    assert resolved.offset == sum(time < at for time in times)
