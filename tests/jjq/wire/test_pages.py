"""A page fits into a message, and a token means what it was made of."""

from __future__ import annotations

from coldstore.shared.limits import MESSAGE_BYTES_MAX, NAME_CHARS_MAX, OFFSET_MAX
from coldstore.shared.results import BlockInfo, QueueInfo, SubscriberInfo
from jjq.limits import PAGE_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.pages import Page, token

NAME = "n" * NAME_CHARS_MAX
BIG = OFFSET_MAX


def test_a_page_of_the_longest_entries_fits_into_a_message() -> None:
    key = f"queues/{NAME}/young/{BIG:020d}-{'t' * 36}.parquet"
    queue = QueueInfo("i" * 36, NAME, "json", BIG, 1.5, BIG, BIG, BIG, BIG, BIG)
    subscriber = SubscriberInfo(
        f"{NAME}/{NAME}", NAME, NAME, BIG, BIG, BIG, f"subscriber:{NAME}", BIG, True, BIG
    )
    block = BlockInfo(BIG, BIG, BIG, BIG, "young", True, BIG, BIG, BIG, BIG, "f" * 64, key, BIG)
    full = [
        pb.ListQueuesResponse(queues=[convert.queue_out(queue)]),
        pb.ListSubscribersResponse(subscribers=[convert.subscriber_out(subscriber)]),
        pb.ListBlocksResponse(blocks=[convert.block_out(block)]),
    ]
    assert max(message.ByteSize() for message in full) * PAGE_MAX + 1_000 < MESSAGE_BYTES_MAX


def test_a_token_goes_on_behind_the_last_entry_that_was_sent() -> None:
    page = Page.requested("queues", 2, "")
    sent, more = page.cut(["a", "b", "c"], str)
    assert list(sent) == ["a", "b"]
    assert Page.requested("queues", 2, more).place == "b"
    assert page.cut(["a", "b"], str) == (["a", "b"], "")
    assert token("queues", "") == ""
