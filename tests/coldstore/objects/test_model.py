"""The local and the memory store against a dictionary: any writes, any listing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict

STORES: dict[str, Callable[[str], ObjectStore]] = {
    "memory": lambda folder: MemoryObjects(ManualClock()),
    "local": lambda folder: LocalObjects(Path(folder) / "store", clock=ManualClock()),
}
SEGMENTS = st.sampled_from(["a", "a-b", "a.b", "a+", "a0", "a=", "A", "_", "ab", "b"])
FOLDERS = st.lists(SEGMENTS, max_size=2)
# Objects end in a digit and folders do not, so that no key is both.
KEYS = st.tuples(FOLDERS, SEGMENTS).map(lambda parts: "/".join([*parts[0], f"{parts[1]}.1"]))
WRITES = st.lists(st.tuples(st.sampled_from(["put", "absent", "delete"]), KEYS), max_size=12)
PREFIXES = st.one_of(
    st.just(""),
    KEYS,
    st.lists(SEGMENTS, min_size=1, max_size=2).map("/".join),
    st.lists(SEGMENTS, min_size=1, max_size=2).map(lambda folders: "/".join(folders) + "/"),
)
AFTERS = st.one_of(st.just(""), KEYS, st.text(alphabet="ab0-./_", max_size=6))


@pytest.mark.parametrize("store", STORES)
@settings(max_examples=60, deadline=None)
@given(writes=WRITES, listings=st.lists(st.tuples(PREFIXES, AFTERS), min_size=1, max_size=5))
def test_listing_agrees_with_a_sorted_dictionary(
    store: str, writes: list[tuple[str, str]], listings: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        objects, model = STORES[store](folder), dict[str, str]()
        for verb, key in writes:
            if verb == "delete":
                objects.delete(key)
                model.pop(key, None)
            elif verb == "put":
                model[key] = objects.put(key, key.encode())
            elif key in model:
                with pytest.raises(Conflict):
                    objects.put_if_absent(key, b"")
            else:
                model[key] = objects.put_if_absent(key, key.encode())

        for prefix, after in listings:
            found = [(info.key, info.etag, info.size) for info in objects.list(prefix, after)]
            wanted = sorted(key for key in model if key.startswith(prefix) and key > after)
            assert found == [(key, model[key], len(key)) for key in wanted]
