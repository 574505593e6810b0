"""Both forms of the protocol: the bytes of the protocol's own implementation, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.shared.errors import InvalidInput
from jjq.http.priority_socket.bincode import REPLIES, REQUESTS, decode, encode
from jjq.http.priority_socket.frames import (
    CreateRequest,
    ErrorReply,
    FetchRequest,
    FinishRequest,
    HelloReply,
    MessageReply,
    NoMessageReply,
    NoticeReply,
    PopRequest,
    PostRequest,
    decode_json,
    encode_json,
)

# Made with bincode 1.3.3.
GOLDEN: list[tuple[Any, Any, str]] = [
    (
        REQUESTS,
        PostRequest("q", b"hi", -1, 7, ("sync", "finish")),
        "000000000000000001000000000000007102000000000000006869ffff070000000000000002000000000000000200000004000000",
    ),
    (
        REQUESTS,
        FetchRequest("q", 1.5, 30.0, "write", 300),
        "0000000001000000010000000000000071010000c03f0000f041010000002c01000000000000",
    ),
    (
        REQUESTS,
        FinishRequest("q", 5, 1, None, "sync"),
        "0000000002000000010000000000000071050000000000000001000000000102000000",
    ),
    (
        REQUESTS,
        PopRequest("q", "ready", None, 9),
        "000000000300000001000000000000007100000000000900000000000000",
    ),
    (
        REQUESTS,
        CreateRequest("q", 1, 3, None, None),
        "0000000004000000010000000000000071010000000000000001030000000000",
    ),
    (
        REPLIES,
        MessageReply(9, 0, 70000, b"hi", True),
        "000000000000000009000000000000000000000070110100000000000200000000000000686901",
    ),
    (REPLIES, NoticeReply(7, "drop"), "0000000001000000070000000000000006000000"),
    (REPLIES, HelloReply(2**40), "00000000020000000000000000010000"),
    (REPLIES, NoMessageReply(9), "00000000030000000900000000000000"),
    (
        REPLIES,
        ErrorReply(9, "PermissionDenied", "q"),
        "0000000004000000090000000000000002000000010000000000000071",
    ),
]


@pytest.mark.parametrize(("kinds", "value", "text"), GOLDEN, ids=[type(each[1]).__name__ for each in GOLDEN])
def test_the_golden_bytes_are_read_and_written(kinds: Any, value: Any, text: str) -> None:
    assert encode(value, kinds).hex() == text
    assert decode(bytes.fromhex(text), kinds) == value


@pytest.mark.parametrize(("kinds", "value", "text"), GOLDEN, ids=[type(each[1]).__name__ for each in GOLDEN])
def test_trailing_bytes_are_passed_over_and_a_frame_that_is_cut_is_refused(
    kinds: Any, value: Any, text: str
) -> None:
    whole = bytes.fromhex(text)
    assert decode(whole + b"more", kinds) == value
    for end in range(len(whole)):
        with pytest.raises(InvalidInput):
            decode(whole[:end], kinds)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("01000000 00000000", "version 1"),
        ("00000000 05000000", "kind 5"),
        ("00000000 ffffffff", "kind"),
        ("00000000 00000000 ffffffffffffffff 71", "items"),  # the length of a name
        ("00000000 00000000 0100000000000000 71 0000000000000080 6869", "items"),
        ("00000000 00000000 0100000000000000 ff", "UTF-8"),
        ("00000000 03000000 0100000000000000 71 03000000", "known are 0 to 2"),
        ("00000000 03000000 0100000000000000 71 00000000 02", "only 0 and 1"),
    ],
)  # fmt: skip
def test_lying_lengths_and_unknown_tags_are_refused(frame: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        decode(bytes.fromhex(frame), REQUESTS)


def test_a_flag_of_two_is_refused() -> None:
    whole = encode(MessageReply(1, 0, 1, b"", True), REPLIES)
    with pytest.raises(InvalidInput, match="only 0 and 1"):
        decode(whole[:-1] + b"\2", REPLIES)


def test_a_list_of_a_million_notices_is_refused_before_it_is_read() -> None:
    head = encode(PostRequest("q", b"", 0, 0, ()), REQUESTS)[:-8]
    with pytest.raises(InvalidInput, match="at most 64"):
        decode(head + (10**6).to_bytes(8, "little") + bytes(4 * 10**6), REQUESTS)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        request = decode(data, REQUESTS)
    except InvalidInput:
        return
    assert type(request) in {PostRequest, FetchRequest, FinishRequest, PopRequest, CreateRequest}


u64 = st.integers(0, 2**64 - 1)
NOTICES = ("ready", "write", "sync", "assign", "finish", "retry", "drop")


@settings(max_examples=50)
@given(
    st.builds(
        PostRequest,
        st.text(max_size=9),
        st.binary(max_size=99),
        st.integers(-(2**15), 2**15 - 1),
        u64,
        st.lists(st.sampled_from(NOTICES), max_size=9).map(tuple),
    )
)
def test_a_post_survives_the_binary_form(post: PostRequest) -> None:
    assert decode(encode(post, REQUESTS), REQUESTS) == post


# JSON ----------------------------------------------------------------------------------------------------


def test_a_post_needs_no_more_than_a_queue_and_a_message() -> None:
    text = b'{"type": "post", "queue": "abc", "message": "hello"}'
    assert decode_json(text) == PostRequest("abc", b"hello", 0, 0, ())


def test_a_message_may_be_an_array_of_bytes() -> None:
    text = b'{"type": "post", "queue": "abc", "message": [0, 1, 2, 10, 255]}'
    assert decode_json(text) == PostRequest("abc", bytes([0, 1, 2, 10, 255]))


def test_fields_that_the_description_omits_have_defaults() -> None:
    assert decode_json(b'{"type":"pop","queue":"q"}') == PopRequest("q", "ready", None, 0)
    assert decode_json(b'{"type":"create","queue":"q"}') == CreateRequest("q", 0, None, None, None)
    assert decode_json(b'{"type":"fetch","queue":"q","work_timeout":1}') == FetchRequest("q", None, 1.0)
    found = decode_json(b'{"type":"finish","queue":"q","sequence":1,"shard":2}')
    assert found == FinishRequest("q", 1, 2, None, None)


def test_a_label_may_have_64_bits_and_no_more() -> None:
    most = 2**64 - 1
    assert decode_json(json.dumps({"type": "pop", "queue": "q", "label": most}).encode()).label == most
    with pytest.raises(InvalidInput, match="label"):
        decode_json(json.dumps({"type": "pop", "queue": "q", "label": most + 1}).encode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"hello",
        b"[]",
        b'{"type":"post"}',
        b'{"queue":"q"}',
        b'{"type":"push","queue":"q","message":""}',
        b'{"type":"post","queue":"q","message":[256]}',
        b'{"type":"post","queue":"q","message":"","priority":1.5}',
        b'{"type":"post","queue":"q","message":"","priority":4294967295}',
        b'{"type":"post","queue":"q","message":"","notify":["done"]}',
        b'{"type":"post","queue":"q","queue":"r","message":""}',
        b'{"type":"fetch","queue":"q"}',
        b'{"type":"fetch","queue":"q","work_timeout":NaN}',
        b'{"type":"finish","queue":"q","sequence":-1,"shard":0}',
        b'{"type":"finish","queue":"q","sequence":0,"shard":4294967296}',
        b'{"type":"pop","queue":"q","sync":"now"}',
        b'{"type":"pop","queue":"\xff"}',
    ],
)
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_json(text)


def test_replies_are_written_with_their_types() -> None:
    replies: list[Any] = [
        MessageReply(9, 1, 5, b"hi", True),
        NoticeReply(7, "drop"),
        HelloReply(3),
        NoMessageReply(9),
        ErrorReply(9, "NoObject", "q"),
    ]
    assert [json.loads(encode_json(reply)) for reply in replies] == [
        {"type": "message", "label": 9, "shard": 1, "sequence": 5, "body": "hi", "finished": True},
        {"type": "notice", "label": 7, "notice": "drop"},
        {"type": "hello", "id": 3},
        {"type": "nomessage", "label": 9},
        {"type": "error", "label": 9, "code": "NoObject", "key": "q"},
    ]


def test_a_body_that_is_no_text_is_an_array_of_bytes() -> None:
    assert json.loads(encode_json(MessageReply(0, 0, 0, b"\xff\x00", False)))["body"] == [255, 0]
