"""Queues, subscribers, receipts and blocks come back as they went."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import pytest

from coldstore.shared.batch import CONTENTS
from coldstore.shared.errors import InvalidInput
from hotstore.port import STAGES, BlockInfo, Loss, QueueInfo, Receipt, Resolved, SubscriberInfo
from jjq.wire import convert
from jjq.wire.enums import BLOCK, CONTENT, FORM, STAGE, WireEnum

QUEUE = QueueInfo("id", "orders", "json", 5, 2.5, 6, 7, 8, 9, 10)
PLACE = Resolved(3, 4, 1, 9, "time: after all → end")
SUBSCRIBER = SubscriberInfo("orders/x", "x", "orders", 3, 2, 1, "ago:7d", 5, True, 6, PLACE)
BLOCKS = [
    BlockInfo(1, 1, 2, 2, kind, True, 3, 4, 5, 6, "ab", "key", 7)
    for kind in get_args(get_type_hints(BlockInfo)["kind"])
]


def test_a_queue_comes_back() -> None:
    for content in CONTENTS:
        queue = dataclasses.replace(QUEUE, content=content)
        assert convert.queue_in(convert.queue_out(queue)) == queue


@pytest.mark.parametrize(
    "subscriber",
    [
        SUBSCRIBER,
        dataclasses.replace(SUBSCRIBER, resolved=None),
        dataclasses.replace(SUBSCRIBER, resolved=dataclasses.replace(PLACE, timestamp_us=None)),
        dataclasses.replace(SUBSCRIBER, resolved=dataclasses.replace(PLACE, timestamp_us=0)),
    ],
)
def test_a_subscriber_comes_back(subscriber: SubscriberInfo) -> None:
    assert convert.subscriber_in(convert.subscriber_out(subscriber)) == subscriber


@pytest.mark.parametrize(
    "loss",
    [
        Loss("orders", (), False, "", 7),
        Loss("orders", ((1, 3), (5, 1 << 40)), True, "files are gone", 1 << 40),
    ],
)
def test_a_loss_comes_back(loss: Loss) -> None:
    assert convert.loss_in(convert.loss_out(loss)) == loss


@pytest.mark.parametrize("stage", STAGES)
def test_a_receipt_comes_back(stage: Any) -> None:
    receipt = Receipt(1, 2, 3, stage, duplicate=True)
    assert convert.receipt_in(convert.receipt_out(receipt)) == receipt


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_comes_back(block: BlockInfo) -> None:
    bare = dataclasses.replace(block, stored_bytes=None, sha256=None, key=None)
    for each in (block, bare):
        assert convert.block_in(convert.block_out(each)) == each


@pytest.mark.parametrize("words", [CONTENT, STAGE, FORM, BLOCK])
def test_an_unknown_number_or_word_is_refused_with_what_is_known(words: WireEnum[str]) -> None:
    for number in (-1, 77):
        with pytest.raises(InvalidInput, match="use"):
            words.word(number)
    with pytest.raises(InvalidInput, match="use"):
        words.number("nonsense")


def test_nothing_of_the_port_is_left_out() -> None:
    sent: dict[type, set[str]] = {
        QueueInfo: {f.name for f in convert.queue_out(QUEUE).DESCRIPTOR.fields},
        SubscriberInfo: {f.name for f in convert.subscriber_out(SUBSCRIBER).DESCRIPTOR.fields},
        BlockInfo: {f.name for f in convert.block_out(BLOCKS[0]).DESCRIPTOR.fields},
    }
    for kind, names in sent.items():
        assert {f.name for f in dataclasses.fields(kind)} == names
