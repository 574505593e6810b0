"""Values of JSON queues: short ones are parsed, long ones walked, and both say the same."""

from __future__ import annotations

import json
from time import thread_time

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared import json_text
from coldstore.shared.errors import InvalidInput
from coldstore.shared.json_text import NotJson, check_json, walk_json
from coldstore.shared.limits import MIB

STEP_SECONDS = 0.05  # one step takes a millisecond; the whole of these texts took the parser 0.1 to 0.25 s


def parses(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def walks(text: str) -> bool:
    try:
        for _ in walk_json(text.encode()):
            pass
    except NotJson:
        return False
    return True


TEXTS = [
    "", " ", "1", " 1 ", "-0", "01", "1.", ".5", "1.5e3", "1E+5", "1e999", "-1e999", "1e-400", "1" * 400, "9" * 308,
    "0." + "1" * 4_000, "12345678901234567890123", "-", "+1", "1 2", "nul", "null", "true", "truefalse",
    "nan", "Infinity",
    '""', '"', '"a', '"\\', '"\\"', '"\\u12"', '"\\u00e9"', '"\\ud800"', '"\\ud800\\udc00"', '"\\udc00"', '"\\ud800x"',
    '"\\x"', '"\x01"', '"\x7f"', '"ü€😀"', '"' + "a" * 100 + '"', '"' + "\\n" * 100 + '"', '"' + "a" * 100 + '\\q"',
    '"' + "\\ud800\\udc00" * 20 + '"', "\ufeff1", "[\x0b1]", "[\u00a01]",
    "[]", "[ ]", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,2]", "[[]]", "[[],[]]", "[[1],[2,3],{}]",
    "[}", "[1}",
    "{}", "{ }", "{", "}", '{"a"}', '{"a":}', '{"a":1}', '{"a":1,}', '{"a":1,"b":[1,{"c":null}]}',
    "{1:2}", '{"a" : 1 }',
    '{"a":1]', '{"a":1}}', '{"a":1} x', "[" + "1," * 200 + "1]", "[" + "[1,2]," * 100 + "[]]", "[" + " " * 200 + "]",
    "[" + '{"a":1,"b":"x"},' * 50 + "{}]", "[" + "1," * 200 + "]", "[" + "1," * 200, "[" + "1," * 200 + "x]",
    "[" * 1_024 + "]" * 1_024, "[" * 1_025 + "]" * 1_025, '{"a":' * 1_024 + "1" + "}" * 1_024, "[" * 1_024 + "[1],1",
    "[" * 1_023 + "[1]," + "[2]" + "]" * 1_023, "[" * 1_024 + "[1]," + "[2]" + "]" * 1_024,
]  # fmt: skip


@pytest.mark.parametrize("step_bytes", [1, 3, 32, 16_384])
def test_the_walk_accepts_what_the_parser_accepts(step_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_WALK_BYTES", step_bytes)
    assert [text for text in TEXTS if walks(text) != parses(text)] == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)
SIGNS = st.text(st.sampled_from('[]{},:"\\u0d8c1-+.eE tfn\n\x00'), max_size=30)


@given(VALUES, st.booleans(), st.integers(0, 2**31), st.text(max_size=2) | SIGNS)
def test_texts_that_are_json_but_for_one_place(value: object, ascii_: bool, at: int, put: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_)
    cut = at % (len(text) + 1)
    for each in (text, text[:cut] + put + text[cut + 1 :], text[:cut]):
        if each.encode("utf-8", "ignore").decode() == each:  # a column of Arrow's holds nothing else
            assert walks(each) == parses(each), each


@given(SIGNS)
def test_texts_that_are_hardly_ever_json(text: str) -> None:
    assert walks(text) == parses(text)


LONG = {
    "numbers": "[" + "1," * (2 * MIB) + "1]",
    "objects": "[" + '{"a":1},' * (MIB // 2) + "{}]",
    "empty arrays": "[" + "[]," * MIB + "[]]",
    "nested": "[" + '{"a":[[1],{"b":[]}]},' * (MIB // 6) + "{}]",
    "names": "{" + '"ab":"c",' * (MIB // 2) + '"d":0}',
    "a string": '"' + "a" * (4 * MIB) + '"',
    "escapes": '"' + "\\n" * (2 * MIB) + '"',
    "space": " " * (4 * MIB) + "1",
    "a number": "0." + "1" * (4 * MIB),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_no_step_over_a_long_value_takes_long(text: str) -> None:
    steps = check_json(pa.array([text]))
    longest, began = 0.0, thread_time()
    for _ in steps:
        longest = max(longest, thread_time() - began)
        began = thread_time()
    assert max(longest, thread_time() - began) < STEP_SECONDS


def test_a_long_value_that_is_not_json_is_named() -> None:
    bad = "[" + "1," * 200_000 + "]"
    with pytest.raises(InvalidInput, match=r"element 1: its value '\[1,1.*is not JSON \(unexpected '\]' at"):
        list(check_json(pa.array(["{}", bad, "{}"])))
    with pytest.raises(InvalidInput, match="element 1: its value"):
        list(check_json(pa.array(["{}", bad]), at_once=True))
