"""The parts of a group's state: the set of tasks, the timers, the open tasks; and the fold that is the only writer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.shared.batch import stamp
from hotstore.groups.group import GroupState
from hotstore.groups.ledger import LedgerRow, LedgerRows, decode_rows, encode_rows
from hotstore.groups.open_tasks import READY, TAKEN, OpenTasks
from hotstore.groups.task_set import CHUNK, TaskSet
from hotstore.groups.timers import LEASE, WAKE, Timers

RUNS = st.lists(st.tuples(st.booleans(), st.integers(0, 3 * CHUNK), st.integers(1, 2 * CHUNK)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(RUNS, st.integers(0, 5 * CHUNK))
def test_a_task_set_is_a_set(runs: list[tuple[bool, int, int]], at: int) -> None:
    tasks, model = TaskSet(), set[int]()
    for adds, first, count in runs:
        some = range(first, first + count)
        if adds:
            tasks.add_run(first, count)
            model.update(some)
        else:
            tasks.discard_run(first, count)
            model.difference_update(some)
        assert tasks.has_none(at, 100) == model.isdisjoint(range(at, at + 100))
    assert len(tasks) == len(model)
    assert [task for first, count in tasks.runs() for task in range(first, first + count)] == sorted(model)
    assert tasks.first_missing(at) == next(task for task in range(at, 9 * CHUNK) if task not in model)
    assert list(tasks.copy().runs()) == list(tasks.runs())


def test_a_long_set_that_is_full_takes_no_memory() -> None:
    tasks = TaskSet()
    tasks.add_run(1, 10_000_000)
    assert sum(isinstance(chunk, bytearray) for chunk in tasks._chunks.values()) == 2
    assert tasks.first_missing(1) == 10_000_001


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), max_size=200), st.integers(0, 150))
def test_timers_tell_all_that_is_due_and_nothing_else(entries: list[tuple[int, int]], now: int) -> None:
    timers = Timers()
    for task, (start, duration) in enumerate(entries):
        timers.add(task % 2, start + duration, task, 1, duration)
    times = [start + duration for start, duration in entries]
    assert timers.next_us() == min(times, default=None)
    due = sorted(task for _, first, count in timers.due(now) for task in range(first, first + count))
    assert due == [task for task, time in enumerate(times) if time <= now]
    assert timers.next_us() == min((time for time in times if time > now), default=None)
    assert list(timers.due(now)) == []


def test_deadlines_of_one_duration_share_a_lane_and_neighbours_a_run() -> None:
    timers = Timers()
    for task in range(100_000):
        timers.add(LEASE, 1_000 + task // 1_000, task, 1, 60)
    assert timers._heap == []
    timers.add(WAKE, 5, 0, 1, 7)
    assert sum(1 for _ in timers.due(10**9)) == 101


def test_open_tasks_use_slots_again_and_give_a_peak_back() -> None:
    tasks = OpenTasks()
    assert tasks.run_of_slots(5_000) == 0
    tasks.put_run(0, 5_000, 0, READY, (0, 0, 0), (0, 0, 0))
    tasks.change(tasks.index[7], TAKEN)
    assert list(tasks.of_state(TAKEN)) == [7]
    tasks.remove(7)
    assert tasks.put(9_999, 0) == 7
    for task in list(tasks.index):
        tasks.remove(task)
    assert len(tasks.state) == 0
    assert tasks.by_state == [0, 0, 0, 0]


def test_batches_use_slots_again_while_something_stays_open() -> None:
    state = GroupState()
    state.fold(0, LedgerRow(0, 1, "take", "taken", 1))  # stays open: nothing is given back as a whole
    for first in range(1, 100_000, 100):
        state.fold(1, LedgerRow(first, 100, "take", "taken", 1, "w", "s", 7))
        slot = state.open.index[first + 99]
        assert (state.open.attempt[slot], state.open.until[slot], state.open.since[slot]) == (1, 7, 1)
        sizes = (100,) if first % 200 < 100 else (30, 70)
        at = first
        for count in reversed(
            sizes
        ):  # out of order now and then: free slots that lie scattered are used, too
            state.fold(2, LedgerRow(at, count, "ack", "done", 1, None, "s"))
            at += count
    state.check_counts()
    assert len(state.open) == 1
    assert len(state.open.state) < 4_000


def test_rows_of_neighbours_are_joined_and_come_back_as_they_were() -> None:
    rows = LedgerRows()
    for task in range(5):
        rows.add(LedgerRow(task, 1, "ack", "done", 1, None, "s"))
    rows.add(LedgerRow(5, 1, "ack", "done", 2, None, "s"))
    rows.add(LedgerRow(9, 1, "nack", "delayed", 2, "w", "s", 1_000, 2_000, -3, "why"))
    kept = rows.take(1 << 20)
    assert [(row.task, row.count) for row in kept] == [(0, 5), (5, 1), (9, 1)]
    batch = stamp(encode_rows(kept), 0, 77)
    assert list(decode_rows(batch)) == [(77, row) for row in kept]
    assert list(decode_rows(batch.slice(1, 2))) == [(77, row) for row in kept[1:]]


def test_many_rows_go_in_several_writes() -> None:
    rows = LedgerRows()
    for task in range(0, 20_000, 2):
        rows.add(LedgerRow(task, 1, "nack", "ready", 1, None, "s", reason="x" * 100))
    count = 0
    while rows.rows:
        some = rows.take(1 << 20)
        assert 0 < len(some) < 10_000
        count += len(some)
    assert count == 10_000


def test_a_backlog_is_two_numbers_and_done_tasks_are_none() -> None:
    group = GroupState()
    for first in range(0, 1_000_000, 1_000):
        group.fold(1, LedgerRow(first, 1_000, "take", "taken", 1, None, "s", 60))
        group.fold(2, LedgerRow(first, 1_000, "ack", "done", 1, None, "s"))
    assert (group.floor, len(group.ahead), len(group.open)) == (1_000_000, 0, 0)
    assert group.untouched(11_000_000) == 10_000_000
    assert group.done == 1_000_000
