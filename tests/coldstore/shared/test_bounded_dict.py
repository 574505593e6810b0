"""A dictionary that forgets: which entry goes, when, and what becomes of its value."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.bounded_dict import BoundedDict


def test_the_entry_set_longest_ago_is_forgotten() -> None:
    known: BoundedDict[str, int] = BoundedDict(2)
    known["a"], known["b"] = 1, 2
    known["a"] = 3  # newer than b now
    known.get("b")  # no use

    known["c"] = 4

    assert known.items() == [("a", 3), ("c", 4)]
    assert known.get("b") is None
    assert "b" not in known


def test_a_use_keeps_an_entry() -> None:
    known: BoundedDict[str, int] = BoundedDict(2)
    known["a"], known["b"] = 1, 2

    assert known.use("a") == 1
    assert known.use("z") is None
    known["c"] = 3

    assert list(known) == ["a", "c"]


def test_a_value_that_makes_room_is_handed_out_and_one_that_is_popped_is_not() -> None:
    closed: list[str] = []
    known: BoundedDict[int, str] = BoundedDict(2, evicted=closed.append)
    for number, name in enumerate("abcd"):
        known[number] = name

    assert known.pop(2) == "c"
    assert known.pop(2) is None
    assert closed == ["a", "b"]
    assert known.clear() == ["d"]
    assert len(known) == 0
    assert closed == ["a", "b"]


def test_weights_are_bounded_too() -> None:
    held: BoundedDict[str, bytes] = BoundedDict(10, weigh=len)
    held["a"], held["b"] = bytes(4), bytes(6)
    held["a"] = bytes(3)
    assert len(held) == 2

    held["c"] = bytes(7)
    assert list(held) == ["a", "c"]

    held["d"] = bytes(11)  # too heavy by itself: nothing stays
    assert len(held) == 0


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["set", "use", "pop"]), st.integers(0, 6))))
def test_it_is_an_ordered_dict_cut_at_its_old_end(most: int, steps: list[tuple[str, int]]) -> None:
    known: BoundedDict[int, int] = BoundedDict(most)
    model: OrderedDict[int, int] = OrderedDict()
    for at, (verb, key) in enumerate(steps):
        match verb:
            case "set":
                known[key] = model[key] = at
                model.move_to_end(key)
                if len(model) > most:
                    model.popitem(last=False)
            case "use":
                assert known.use(key) == model.get(key)
                if key in model:
                    model.move_to_end(key)
            case _:
                assert known.pop(key) == model.pop(key, None)
        assert known.items() == list(model.items())
