"""The multiplexer by itself: numbers, order, what travels together, and what becomes of requests without answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coldstore.shared.errors import Exhausted, JjqError, Unavailable
from jjq.remote.multiplexer import Codec, FailPolicy, Multiplexer, Policy, PushCodec, StreamRequest
from tests.jjq.serving import until

Request = StreamRequest[str, str]


class Letters(Codec[str, str]):
    """Requests are words, messages are `number:word` with commas between; an error is a word that begins with `!`."""

    method = "Letters"

    def size(self, body: str) -> int:
        return len(body)

    def fits(self, count: int, size: int) -> bool:
        return count <= 3 and size <= 10

    def encode(self, requests: list[tuple[int, str]]) -> bytes:
        return ",".join(f"{number}:{word}" for number, word in requests).encode()

    def decode(self, raw: bytes) -> Iterator[tuple[int | None, str | JjqError]]:
        for each in raw.decode().split(","):
            number, _, word = each.partition(":")
            yield int(number) if number else None, Exhausted(word) if word.startswith("!") else word


class FakeCall:
    """A stream: keeps what is written, and reads what a test says."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.writing = asyncio.Event()  # writes wait for it
        self.writing.set()
        self.done = False
        self.answers: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    async def write(self, message: bytes) -> None:
        self.written.append(message.decode())
        await self.writing.wait()

    async def done_writing(self) -> None:
        self.done = True

    async def read(self) -> Any:
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return object() if answer is None else answer  # gRPC says EOF by an object of its own

    def cancel(self) -> None:
        self.answers.put_nowait(None)


class FakeLane:
    """A connection whose only stream is `call`."""

    target = "a:1"

    def __init__(self) -> None:
        self.call = FakeCall()

    def both_streams(self, method: str) -> Any:
        return lambda: self.call


class Running:
    """A multiplexer over a fake stream."""

    def __init__(
        self, policy: Policy[Request] | None = None, most: int | None = None, *first: Request
    ) -> None:
        self.policy = policy or FailPolicy[Request]()
        self.lane = FakeLane()
        self.call = self.lane.call
        self.multiplexer = Multiplexer(Letters(), self.policy, first, most)
        self.task = asyncio.create_task(self.multiplexer.run(self.lane))  # type: ignore[arg-type]

    def ask(self, *words: str) -> list[Request]:
        requests = [Request(word) for word in words]
        for request in requests:
            self.multiplexer.add(request)
        return requests

    async def wrote(self, *messages: str) -> None:
        await until(lambda: self.call.written == list(messages))

    def answer(self, message: str) -> None:
        self.call.answers.put_nowait(message.encode())


async def test_answers_find_their_requests_by_number_in_any_order() -> None:
    running = Running()
    a, b, c = running.ask("a", "b", "c")
    await running.wrote("1:a,2:b,3:c")
    running.answer("3:C,1:A")
    assert (await a.reply, await c.reply) == ("A", "C")
    assert not b.reply.done()
    running.answer("2:!full")
    with pytest.raises(Exhausted, match="full"):
        await b.reply
    assert running.multiplexer.idle
    running.task.cancel()


async def test_an_answer_without_a_number_is_for_the_oldest_request() -> None:
    running = Running()
    requests = running.ask("a", "b", "c")
    await running.wrote("1:a,2:b,3:c")
    running.answer(":A,:B")
    running.answer(":C")
    assert [await each.reply for each in requests] == ["A", "B", "C"]
    running.task.cancel()


async def test_what_waits_travels_together_as_far_as_the_codec_says() -> None:
    running = Running()
    running.ask("a", "b", "c", "d", "eeeeee", "ffffff", "gggggggggggg", "h")
    await running.wrote("1:a,2:b,3:c", "4:d,5:eeeeee", "6:ffffff", "7:gggggggggggg", "8:h")
    running.task.cancel()


async def test_only_so_many_are_sent_and_not_answered() -> None:
    running = Running(None, 2)
    running.ask("a", "b", "c")
    await running.wrote("1:a,2:b")
    running.answer("1:A")
    await running.wrote("1:a,2:b", "3:c")
    running.task.cancel()


async def test_a_request_whose_caller_has_gone_is_not_sent_and_takes_no_room() -> None:
    running = Running()
    running.call.writing.clear()
    running.ask("a")
    await running.wrote("1:a")
    b, c, d = running.ask("bbbbbbbbb", "c", "d")
    b.reply.cancel()
    running.call.writing.set()
    await running.wrote("1:a", "2:c,3:d")
    assert not c.reply.done()
    assert not d.reply.done()
    running.task.cancel()


async def test_an_ended_stream_sends_what_waits_and_answers_it() -> None:
    policy = FailPolicy[Request]()
    running = Running(policy)
    running.call.writing.clear()
    (a,) = running.ask("a")
    await running.wrote("1:a")
    (b,) = running.ask("b")
    gone = running.ask("c")[0]
    gone.reply.cancel()
    policy.end()
    running.multiplexer.wake()
    running.call.writing.set()
    await until(lambda: running.call.done)
    assert running.call.written == ["1:a", "2:b"]
    running.answer("1:A,2:B")
    assert (await a.reply, await b.reply) == ("A", "B")
    running.call.answers.put_nowait(None)
    await running.task


async def test_what_has_no_answer_fails_and_says_whether_it_was_sent() -> None:
    running = Running(None, 1)
    sent, unsent = running.ask("a", "b")
    await running.wrote("1:a")
    running.call.answers.put_nowait(None)
    await running.task
    running.multiplexer.abandon(Unavailable("broken; the outcome is unknown"))
    with pytest.raises(Unavailable, match="unknown") as of_sent:
        await sent.reply
    with pytest.raises(Unavailable, match="broken") as of_unsent:
        await unsent.reply
    assert (of_sent.value.sent, of_unsent.value.sent) == (True, False)


@pytest.mark.parametrize("answer", ["7:X", ":A,:B"])
async def test_an_answer_to_nothing_breaks_the_stream(answer: str) -> None:
    running = Running()
    running.ask("a")
    await running.wrote("1:a")
    running.answer(answer)
    with pytest.raises(Unavailable, match="was not sent"):
        await running.task


class Again(Policy[Request]):
    """Ends the stream at the first error, and keeps what has no answer."""

    def __init__(self) -> None:
        self.refused = False
        self.left: list[str] = []
        self.messages = 0

    def ends(self, waiting: bool) -> bool:
        return self.refused

    def may_send(self, request: Request) -> bool:
        return True

    def answered(self, request: Request, answer: object) -> None:
        if isinstance(answer, JjqError):
            self.refused = True
            self.left.append(request.body)
        else:
            request.reply.set_result(str(answer))

    def unanswered(self, sent: list[Request], unsent: list[Request], error: JjqError) -> None:
        self.left += [each.body for each in sent] + [each.body for each in unsent]

    def message_read(self) -> None:
        self.messages += 1


async def test_a_policy_that_sends_again_ends_one_stream_and_begins_the_next_with_what_is_left() -> None:
    policy = Again()
    running = Running(policy, 2)
    a, b, c = running.ask("a", "b", "c")
    await running.wrote("1:a,2:b")
    running.answer("1:!full")
    await until(lambda: running.call.done)
    assert running.call.written == ["1:a,2:b"]  # c is not sent any more, though there is room
    running.answer("2:B")
    running.call.answers.put_nowait(None)
    await running.task
    running.multiplexer.abandon(Unavailable("over"))
    assert (policy.left, await b.reply, policy.messages) == (["a", "c"], "B", 2)
    second = Running(Again(), None, a, c)
    await second.wrote("1:a,2:c")
    second.answer("1:A,2:C")
    assert (await a.reply, await c.reply) == ("A", "C")
    second.task.cancel()


def test_pushes_travel_together_only_when_the_server_says_that_it_takes_several() -> None:
    from jjq.v1 import jjq_pb2 as pb

    class NoLink:
        """Learns nothing."""

        def learn(self, queue: str, owner: str) -> None:
            return None

    codec = PushCodec(NoLink(), "q")  # type: ignore[arg-type]
    assert not codec.fits(2, 10)
    list(codec.decode(pb.PushStreamResponse(several=True).SerializeToString()))
    assert codec.fits(2, 10)
    assert not codec.fits(2, 1 << 40)
    assert not codec.fits(1 << 40, 10)
