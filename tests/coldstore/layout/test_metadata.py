"""Block metadata: the document and its invariants."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.layout import metadata, paths, sealed_json
from coldstore.layout.metadata import BlockMetadata
from coldstore.shared.errors import DataLoss, InvalidInput
from tests.coldstore.making import QUEUE_ID, linked

FINAL = list(linked(3))[1]
YOUNG = replace(FINAL, kind="young", path=paths.young_path(FINAL.first, "ab12"), chain=None)
KEY = paths.meta("orders", FINAL.first, "final")


def read(block: BlockMetadata, queue: str = QUEUE_ID) -> BlockMetadata:
    key = paths.meta("orders", block.first, block.kind)
    return metadata.decode(metadata.encode(block), key, queue)


OFFSETS = st.integers(1, 2**61)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(
    OFFSETS,
    OFFSETS,
    st.integers(-(2**60), 2**60),
    st.integers(0, 2**60),
    st.sampled_from([FINAL, YOUNG]),
    HEX,
    HEX,
)
def test_what_was_encoded_is_decoded(
    first: int, length: int, time: int, number: int, like: BlockMetadata, sha256: str, chain: str
) -> None:
    young = like.kind == "young"
    block = replace(
        like,
        first=first,
        last=first + length - 1,
        min_timestamp_us=time,
        max_timestamp_us=time + number,
        stored_bytes=number + 1,
        raw_bytes=length,
        epoch=number,
        sha256=sha256,
        previous=first - 1,
        path=paths.young_path(first, "0f") if young else paths.data_path(first),
        chain=None if young else chain,
    )
    assert read(block) == block


def test_the_document_says_what_the_design_asks_for() -> None:
    fields = orjson.loads(metadata.encode(FINAL))
    assert fields["block"] == "00000000000000000010"
    assert (fields["first"], fields["last"], fields["count"]) == (10, 19, 10)
    assert (fields["previous"], fields["next"]) == ("00000000000000000000", "00000000000000000020")
    assert fields["path"] == "data/00000000000000000010.parquet"
    assert {"format", "queue", "min_timestamp", "max_timestamp", "stored_bytes", "raw_bytes"} <= fields.keys()
    assert {"sha256", "epoch", "put_id", "chain"} <= fields.keys()


def test_every_flipped_bit_is_caught_and_named() -> None:
    sealed = metadata.encode(FINAL)
    for position in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(DataLoss) as loss:
            metadata.decode(bytes(damaged), KEY, QUEUE_ID)
        assert (loss.value.key, loss.value.block) == (KEY, FINAL.first)


def test_metadata_of_another_block_under_this_key_is_caught() -> None:
    other = list(linked(3))[2]
    with pytest.raises(DataLoss, match="describes the final block 00000000000000000020"):
        metadata.decode(metadata.encode(other), KEY, QUEUE_ID)
    with pytest.raises(DataLoss, match="describes the young block"):
        metadata.decode(metadata.encode(YOUNG), KEY, QUEUE_ID)


def test_metadata_of_another_queue_is_caught() -> None:
    with pytest.raises(DataLoss, match="belongs to the queue with id"):
        read(FINAL, queue="f" * 32)


def test_a_newer_format_asks_for_an_upgrade() -> None:
    fields = {**orjson.loads(metadata.encode(FINAL)), "novelty": 1}
    del fields["check"], fields["format"]
    with pytest.raises(InvalidInput, match="upgrade jjq"):
        metadata.decode(sealed_json.seal(fields, 2), KEY, QUEUE_ID)


WRONG_FIELDS: list[dict[str, Any]] = [
    {"first": "10"},
    {"count": 11},
    {"next": "00000000000000000021"},
    {"block": "00000000000000000011"},
    {"previous": "9"},
    {"previous": 3},
    {"chain": 3},
    {"sha256": None},
    {"epoch": True},
    {"kind": "old"},
]


@pytest.mark.parametrize("wrong", WRONG_FIELDS)
def test_a_well_sealed_document_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    fields = {**orjson.loads(metadata.encode(FINAL)), **wrong}
    del fields["check"], fields["format"]
    with pytest.raises(DataLoss) as loss:
        metadata.decode(sealed_json.seal(fields, 1), KEY, QUEUE_ID)
    assert loss.value.block == FINAL.first


BROKEN: list[tuple[BlockMetadata, dict[str, Any]]] = [
    (FINAL, {"last": 9}),
    (FINAL, {"first": -1, "path": "data/-0000000000000000001.parquet"}),
    (FINAL, {"last": 2**63 - 1}),
    (FINAL, {"min_timestamp_us": 10**9}),
    (FINAL, {"stored_bytes": 0}),
    (FINAL, {"raw_bytes": 0}),
    (FINAL, {"epoch": -1}),
    (FINAL, {"sha256": "ab"}),
    (FINAL, {"chain": "xy" * 32}),
    (FINAL, {"chain": None}),
    (FINAL, {"queue": "orders"}),
    (FINAL, {"put_id": ""}),
    (FINAL, {"path": paths.data_path(11)}),
    (FINAL, {"path": "../../jjq.json"}),
    (FINAL, {"copy": paths.data_path(10)}),
    (FINAL, {"previous": None}),
    (FINAL, {"previous": 10}),
    (YOUNG, {"chain": "ab" * 32}),
    (YOUNG, {"path": paths.young_path(11, "ab")}),
    (YOUNG, {"copy": paths.young_path(10, "ab")}),
]


@pytest.mark.parametrize(("block", "wrong"), BROKEN)
def test_a_block_that_breaks_an_invariant_is_never_committed(
    block: BlockMetadata, wrong: dict[str, Any]
) -> None:
    assert metadata.broken_invariant(block) is None
    with pytest.raises(AssertionError, match="must not be committed"):
        metadata.encode(replace(block, **wrong))


def test_the_chain_is_the_documented_digest() -> None:
    first, second = list(linked(2))
    before = hashlib.sha256(QUEUE_ID.encode()).digest()
    for block in (first, second):
        offsets = block.first.to_bytes(8, "big") + block.last.to_bytes(8, "big")
        before = hashlib.sha256(before + offsets + bytes.fromhex(block.sha256)).digest()
        assert block.chain == before.hex()


def test_linked_blocks_link() -> None:
    blocks = list(linked(5))
    assert metadata.broken_link(None, blocks[0]) is None
    assert all(metadata.broken_link(left, right) is None for left, right in pairwise(blocks))


def test_blocks_that_do_not_follow_one_another_do_not_link() -> None:
    first, second, third = linked(3)
    assert "starts at 20" in (metadata.broken_link(first, third) or "")
    assert "starts at 10" in (metadata.broken_link(None, second) or "")
    assert "epoch 1 is older" in (metadata.broken_link(replace(first, epoch=2), second) or "")
    assert "names 3" in (metadata.broken_link(first, replace(second, previous=3)) or "")
    assert "chain digest" in (metadata.broken_link(first, replace(second, sha256="ab" * 32)) or "")
    assert "chain digest" in (metadata.broken_link(replace(first, chain="ab" * 32), second) or "")
