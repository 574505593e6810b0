"""Listing folder by folder gives the order of whole keys, whatever order and paging the store has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coldstore.objects.listing import FolderEntry, in_order, start_of, walk
from coldstore.objects.port import ObjectInfo
from coldstore.shared.errors import InvalidInput

Order = Callable[[str], str]
ORDERS: dict[str, Order] = {"whole keys": str, "bare names": lambda name: name.rstrip("/")}

# Few, so that names share beginnings; with the characters on either side of '/' and of each other.
NAMES = st.text(alphabet="a0z.-+=_", min_size=1, max_size=4).filter(lambda name: name[0] in "a0z_")
KEYS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
AFTERS = st.one_of(KEYS, st.text(alphabet="a0z.-/~", max_size=6))


class Simulated:
    """A store of keys that sorts a folder's entries one way or the other, and pages them."""

    def __init__(self, keys: set[str], order: Order, page: int) -> None:
        self._keys = keys
        self._order = order
        self._page = page
        self.asked: list[str] = []

    def read_folder(self, folder: str, stem: str, after: str) -> Iterator[FolderEntry]:
        self.asked.append(folder)
        return in_order(self._pages(folder, stem, start_of(folder, after)))

    def _pages(self, folder: str, stem: str, start: str) -> Iterator[list[FolderEntry]]:
        found = [key[len(folder) :] for key in self._keys if key.startswith(folder + stem)]
        names = {name if "/" not in name else name[: name.index("/") + 1] for name in found}
        first = self._order(start[len(folder) :])
        listed = [name for name in sorted(names, key=self._order) if not start or self._order(name) > first]
        for at in range(0, len(listed), self._page):
            yield [self._entry(folder, name) for name in listed[at : at + self._page]]

    def _entry(self, folder: str, name: str) -> FolderEntry:
        return FolderEntry(name, None if name.endswith("/") else ObjectInfo(folder + name, 0, "", 0))


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(
    keys=st.sets(KEYS, max_size=12), prefix=st.one_of(st.just(""), KEYS), after=AFTERS, page=st.integers(1, 4)
)
@example(keys={"a/x", "a-b/x", "a0"}, prefix="", after="a-b/x", page=1)
@example(keys={"a/x", "a-/x", "a.a/x", "a"}, prefix="a", after="a", page=2)
def test_any_order_and_paging_lists_as_a_sorted_set(
    order: str, keys: set[str], prefix: str, after: str, page: int
) -> None:
    store = Simulated(keys, ORDERS[order], page)

    found = [info.key for info in walk(store.read_folder, prefix, after)]

    assert found == sorted(key for key in keys if key.startswith(prefix) and key > after)


def test_folders_outside_the_prefix_and_before_the_start_are_not_read() -> None:
    store = Simulated({f"{a}/{b}/key" for a in "abc" for b in "abc"}, str, 1_000)

    found = [info.key for info in walk(store.read_folder, "b/", "b/b/key")]

    assert found == ["b/c/key"]
    assert store.asked == ["b/", "b/b/", "b/c/"]


def test_a_folder_with_one_page_after_the_other_is_not_read_ahead() -> None:
    store = Simulated({f"key{n}" for n in range(9)}, str, 2)
    pages = iter([[FolderEntry("a", None)], [FolderEntry("b", None)], [FolderEntry("c", None)]])

    assert next(in_order(pages)).name == "a"

    assert [entry.name for page in pages for entry in page] == ["b", "c"]
    assert next(walk(store.read_folder, "", "")).key == "key0"


@pytest.mark.parametrize(
    ("after", "start"),
    [
        ("", ""),
        ("other/x", ""),
        ("q/", ""),
        ("q/user7/data/1", "q/user6~"),
        ("q/user7", "q/user6~"),
        ("q/user-7", "q/useq~"),
        ("q/00000000000000000040.parquet", "q/0000000000000000004.~"),
        ("q/a", "q/`~"),
        ("q/-", ""),
    ],
)
def test_a_listing_starts_close_to_where_it_should_go_on(after: str, start: str) -> None:
    assert start_of("q/", after) == start


def test_a_store_whose_order_is_neither_is_refused_not_believed() -> None:
    pages = [[FolderEntry("b", None), FolderEntry("c", None)], [FolderEntry("a", None)]]

    with pytest.raises(InvalidInput, match="lists 'a' after 'c'"):
        list(in_order(pages))
