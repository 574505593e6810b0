"""A push is one value: it cannot change on its way, and `push` with arguments makes the same value."""

from __future__ import annotations

import inspect

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.push import Push, PushTarget
from coldstore.shared.results import Receipt

BATCH = payload("bytes", [b"a"])


class Noting(PushTarget):
    """Takes pushes, and keeps the values."""

    def __init__(self) -> None:
        self.taken: list[Push] = []

    async def append(self, push: Push) -> Receipt:
        self.taken.append(push)
        return Receipt(0, push.payload.num_rows, 0, push.stage)


async def test_arguments_become_the_fields_of_the_same_name() -> None:
    target = Noting()
    raw = BATCH.serialize()
    receipt = await target.push(
        "q", BATCH, producer="p", sequence=3, expected_offset=7, stage="cold", serialized=raw
    )
    assert target.taken == [Push("q", BATCH, "p", 3, 7, "cold", raw)]
    assert receipt.stage == "cold"


async def test_what_is_left_out_has_the_same_default_both_ways() -> None:
    target = Noting()
    await target.push("q", BATCH)
    assert target.taken == [Push("q", BATCH)]


def test_both_ways_name_the_same_arguments_in_the_same_order() -> None:
    named = list(inspect.signature(PushTarget.push).parameters)
    assert named == ["self", *Push._fields]


def test_a_push_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Push("q", BATCH).queue = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("push", "plain"),
    [
        (Push("q", BATCH), True),
        (Push("q", BATCH, stage="cold"), True),
        (Push("q", BATCH, producer="p", sequence=0), False),
        (Push("q", BATCH, expected_offset=0), False),
        (Push("q", BATCH, producer="p"), False),
        (Push("q", BATCH, sequence=0), False),
    ],
)
def test_a_push_is_plain_without_identity_and_place(push: Push, plain: bool) -> None:
    assert push.plain is plain
