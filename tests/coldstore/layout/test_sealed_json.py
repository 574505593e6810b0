"""Sealed documents."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.layout import sealed_json
from coldstore.shared import limits
from coldstore.shared.errors import DataLoss, InvalidInput

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
FIELDS = st.dictionaries(
    TEXTS.filter(lambda name: name not in ("check", "format")),
    TEXTS | NUMBERS | st.none() | st.booleans(),
    max_size=8,
)


@given(FIELDS)
def test_what_was_sealed_is_unsealed(fields: dict[str, object]) -> None:
    assert sealed_json.unseal(sealed_json.seal(fields, 1), "a.json", newest=1) == fields


def test_every_flipped_bit_is_caught() -> None:
    sealed = sealed_json.seal({"name": "orders", "age": 1.5, "empty": None}, 1)
    for position in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(DataLoss, match=r"a\.json is damaged") as loss:
            sealed_json.unseal(bytes(damaged), "a.json", newest=1)
        assert loss.value.key == "a.json"


def test_every_truncation_is_caught() -> None:
    sealed = sealed_json.seal({"name": "orders"}, 1)
    for length in range(len(sealed)):
        with pytest.raises(DataLoss):
            sealed_json.unseal(sealed[:length], "a.json", newest=1)


@pytest.mark.parametrize("wrong", [b"", b"[]", b"null", b"{}", b"\xff", b'{"format":1}'])
def test_what_is_no_document_is_refused(wrong: bytes) -> None:
    with pytest.raises(DataLoss):
        sealed_json.unseal(wrong, "a.json", newest=1)


def test_white_space_is_damage_too() -> None:
    sealed = sealed_json.seal({"name": "orders"}, 1)
    with pytest.raises(DataLoss):
        sealed_json.unseal(sealed + b"\n", "a.json", newest=1)
    with pytest.raises(DataLoss):
        sealed_json.unseal(orjson.dumps(orjson.loads(sealed), option=orjson.OPT_INDENT_2), "a.json", newest=1)


def test_a_document_over_the_limit_is_not_parsed() -> None:
    sealed = sealed_json.seal({"name": "x" * limits.METADATA_BYTES_MAX}, 1)
    with pytest.raises(DataLoss):
        sealed_json.unseal(sealed, "a.json", newest=1)


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(InvalidInput, match="upgrade jjq"):
        sealed_json.unseal(sealed_json.seal({}, 2), "a.json", newest=1)


def test_an_older_format_is_read() -> None:
    assert sealed_json.unseal(sealed_json.seal({"a": 1}, 1), "a.json", newest=3) == {"a": 1}
