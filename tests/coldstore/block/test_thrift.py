"""Thrift's compact protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.block import thrift
from coldstore.block.thrift import Struct

INTEGERS = st.integers(-(2**63), 2**63 - 1)
LEAVES: dict[int, st.SearchStrategy[Any]] = {
    thrift.I8: st.integers(0, 255),
    thrift.I16: st.integers(-(2**15), 2**15 - 1),
    thrift.I32: st.integers(-(2**31), 2**31 - 1),
    thrift.I64: INTEGERS,
    thrift.DOUBLE: st.binary(min_size=8, max_size=8),
    thrift.BINARY: st.binary(max_size=200),
}


def _typed(leaves: dict[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[int, Any]]:
    return st.one_of([st.tuples(st.just(kind), values) for kind, values in leaves.items()])


def _struct(field: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[Struct]:
    booleans = st.sampled_from([(thrift.TRUE, True), (thrift.FALSE, False)])
    return st.dictionaries(st.integers(1, 2_000), field | booleans, max_size=6).map(
        lambda d: dict(sorted(d.items()))
    )


def _deeper(field: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[tuple[int, Any]]:
    structs = _struct(field)
    lists = st.tuples(st.just(thrift.STRUCT), st.lists(structs, max_size=20))
    numbers = st.tuples(st.just(thrift.I64), st.lists(INTEGERS, max_size=20))
    maps = st.lists(st.tuples(st.binary(max_size=3), INTEGERS), min_size=1, max_size=3).map(
        lambda items: (thrift.BINARY, thrift.I64, items)
    )
    return st.one_of(
        st.tuples(st.just(thrift.STRUCT), structs),
        st.tuples(st.just(thrift.LIST), lists | numbers),
        st.tuples(st.just(thrift.SET), numbers),
        st.tuples(st.just(thrift.MAP), maps | st.just((0, 0, []))),
    )


STRUCTS = _struct(st.recursive(_typed(LEAVES), _deeper, max_leaves=8))


@given(STRUCTS, st.binary(max_size=5))
def test_what_was_written_is_read(struct: Struct, before: bytes) -> None:
    written = thrift.write(struct)
    data = memoryview(before + written + b"after")
    assert thrift.read(data, len(before)) == (struct, len(before) + len(written))


@pytest.mark.parametrize(
    ("struct", "written"),
    [
        ({}, "00"),
        ({1: (thrift.I32, 1)}, "150200"),
        ({1: (thrift.I32, -1)}, "150100"),
        ({3: (thrift.TRUE, True), 4: (thrift.FALSE, False)}, "311200"),
        ({20: (thrift.BINARY, b"ab")}, "082802616200"),
        ({1: (thrift.LIST, (thrift.I64, [1, 2]))}, "1926020400"),
        ({1: (thrift.I64, 300)}, "16d80400"),
    ],
)
def test_the_bytes_are_those_of_the_specification(struct: Struct, written: str) -> None:
    assert thrift.write(struct).hex() == written
    assert thrift.read(memoryview(bytes.fromhex(written)))[0] == struct


@pytest.mark.parametrize("wrong", ["", "15", "1d00", "1802", "19f5ffffffff0f"])
def test_what_is_cut_short_or_unknown_is_refused(wrong: str) -> None:
    with pytest.raises((IndexError, ValueError)):
        thrift.read(memoryview(bytes.fromhex(wrong)))
