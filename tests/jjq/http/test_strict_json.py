"""Strict JSON against the slow and careful reader: both must agree on every text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.errors import InvalidInput
from jjq.http.strict_json import Suspect, explain, suspect_document, suspect_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
# Pieces that make nearly JSON of any sort when they are put together.
PIECES = st.sampled_from(
    [b"1", b"-", b".5", b"[", b"]", b"{", b"}", b",", b":", b'"a"', b'"', b"\\", b" ", b"\t", b"\r", b"null", b"NaN",
     b"true", b"\\u003a", b'"a":1', b"\xff", b"\xef\xbb\xbf", b"1e999", b"\xc3\xa9", b"\x00", b'"\\ud800"']
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map(b"".join).filter(lambda text: b"\n" not in text)


def is_right(text: bytes) -> bool:
    """What the careful reader says of one text."""
    try:
        explain(Suspect(text))
    except InvalidInput:
        return False
    return True


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_what_json_writes_is_accepted(values: list[object]) -> None:
    texts = [json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") for value in values]
    for text in texts:
        for suspect in suspect_document(text):
            explain(suspect)
    for suspect in suspect_lines(b"\n".join(texts), 1):
        explain(suspect)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_lines_are_right_if_and_only_if_each_is(texts: list[bytes]) -> None:
    suspects = suspect_lines(b"\n".join(texts), 1)
    wrong = [suspect.position for suspect in suspects if not is_right(suspect.text)]
    assert wrong == [at for at, text in enumerate(texts) if not is_right(text)]
    for text in texts:
        assert is_right(text) or suspect_document(text), text


@pytest.mark.parametrize(
    "text", [b"1,2\n[3\n4]", b"[1\n2]", b"[1,\n2]", b'{"a":\n1}', b"1 2\n3", b" \n1", b"1\n,2"]
)
def test_lines_that_are_right_only_together_are_wrong(text: bytes) -> None:
    suspects = suspect_lines(text, 1)
    assert [suspect for suspect in suspects if not is_right(suspect.text)]
