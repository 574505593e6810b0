"""A server that is alone has its store for itself: others are refused, and who lost it acknowledges nothing."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coldstore.layout import paths
from coldstore.objects.local import LocalObjects
from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, Exhausted, NotFound, Unavailable
from coldstore.store import ColdStore
from hotstore.journal.directory_lock import LOCK_NAME, lock_directory
from sharding.documents.holder import IDENTITY_NAME, hold
from sharding.single_node import claim, release
from tests.hotstore.kit import push
from tests.sharding.members import SLOW
from tests.sharding.single_nodes import beats_of, filled, values_of, world

LEASE = 3 * SLOW.lease_seconds


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


@pytest.mark.parametrize("kind", ["memory", "folder"])
async def test_a_second_server_is_refused_by_the_name_of_the_first(tmp_path: Path, kind: str) -> None:
    objects = None if kind == "memory" else LocalObjects(tmp_path / "cold")
    async with world(tmp_path, objects) as made:
        first = await made.open("a")
        await filled(first, b"0")
        before = made.found
        with pytest.raises(Conflict) as refused:
            await made.open("b")
        said = str(refused.value)
        assert f"process {os.getpid()} on {socket.gethostname()}" in said
        assert f"data directory {tmp_path / 'a'}, since 2026-01-01 00:00:00 UTC" in said
        assert "stop it" in said
        assert "jjq release" in said
        assert "\n" not in said
        assert made.found == before
        assert (await push(first.store, "orders", b"1")).first_offset == 1
        lock_directory(tmp_path / "b").release()


async def test_the_own_directory_starts_again_at_once_after_a_kill(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0", b"1")
        await made.kill(first)
        before = made.clock.monotonic()
        again = await made.open("a")
        assert made.clock.monotonic() == before, "it waited for nothing"
        assert await values_of(again) == [b"0", b"1"]
        assert (made.found.run, made.found.since) == (2, 1)


async def test_a_server_that_stopped_with_elements_on_its_disk_alone_keeps_the_store(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        await first.close()
        with pytest.raises(Conflict, match=r"a server that was stopped on .*--seal-on-close"):
            await made.open("b")
        again = await made.open("a", seal_on_close=True)
        await again.close()
        assert made.found.state == "settled"
        other = await made.open("b")
        assert await values_of(other) == [b"0"]
        assert (await push(other.store, "orders", b"1")).first_offset == 1
        with pytest.raises(Conflict, match=f"data directory {tmp_path / 'b'}"):
            await made.open("a")


async def test_an_empty_server_leaves_nothing_behind(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await (await made.open("a")).close()
        await made.open("b")


async def test_the_store_is_away_for_an_hour_and_pushes_go_on(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        made.away()
        for n in range(1, 40):
            made.clock.advance(LEASE / 5)
            with pytest.raises(Unavailable):
                await made.beat(first)
            await beats_of(first).stay()
            assert (await push(first.store, "orders", b"%d" % n)).first_offset == n
        made.back()
        await made.beat(first)
        assert await values_of(first) == [b"%d" % n for n in range(40)]
        with pytest.raises(Conflict):
            await made.open("b")


async def test_after_a_pause_it_asks_before_it_acknowledges(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        made.clock.advance(2 * LEASE)
        made.away()
        await beats_of(first).stay()
        with pytest.raises(Exhausted, match="object store"):
            await push(first.store, "orders", b"1")
        made.back()
        assert (await push(first.store, "orders", b"1")).first_offset == 1, "still its own: the push asked"


async def test_a_paused_server_whose_store_was_released_acknowledges_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        await first.store.seal("orders")
        await push(first.store, "orders", b"given up")
        assert (
            release(made.objects, made.clock, accept_loss=True) is not None
        )  # it beats by hand: it is silent
        second = await made.open("b")
        with pytest.raises(Unavailable, match="lost its store"):
            await push(first.store, "orders", b"zombie")
        assert "lost its store" in str(await first.failed)
        with pytest.raises(Exhausted, match="lost its store"):
            first.sealer.may_store()
        assert (await push(second.store, "orders", b"1")).first_offset == 1
        assert await values_of(second) == [b"0", b"1"]
        await first.close()
        assert made.found.holder is not None
        assert made.found.holder.data == str(tmp_path / "b")
        with pytest.raises(Conflict, match=f"data directory {tmp_path / 'b'}"):
            await made.open("a")


async def test_a_pause_between_write_and_acknowledgement(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")

        def pause(name: str) -> None:
            release(made.objects, made.clock, accept_loss=True)

        failpoint.arm("journal.synced", action=pause)
        with pytest.raises(Unavailable):
            await push(first.store, "orders", b"1")
        assert first.failed.done()


async def test_an_idle_server_finds_out_by_its_beat_and_seals_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a", seal_on_close=True), b"0")
        release(made.objects, made.clock, accept_loss=True)
        with pytest.raises(Conflict):
            await made.beat(first)
        assert "an operator has taken it" in str(await first.failed)
        await first.close()
        assert ColdStore(made.objects, made.clock, SystemChance()).open_queue("orders").next_offset == 0
        assert made.found.state == "ended"


async def test_a_server_that_lives_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path) as made:
        first = await made.open("a")
        held = first.on_leaving.args[0]  # type: ignore[attr-defined]
        assert release(made.objects, made.clock) == made.found.holder
        assert made.found.state == "open", "without --accept-loss nothing is changed"
        advance, begun = made.clock.sleep, made.clock.monotonic()

        def sleep(seconds: float) -> None:
            advance(seconds)
            if made.clock.monotonic() - begun > 1.3 * LEASE:
                held.beat()

        monkeypatch.setattr(made.clock, "sleep", sleep)
        with pytest.raises(Conflict, match="it is alive: stop it first"):
            release(made.objects, made.clock, accept_loss=True)
        assert made.found.state == "open"


async def test_what_was_stopped_is_released_without_waiting(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        with pytest.raises(NotFound, match="correct its address"):
            release(made.objects, made.clock)
        await filled(first := await made.open("a"), b"0")
        await first.close()
        before = made.clock.monotonic()
        assert release(made.objects, made.clock, accept_loss=True) is not None
        assert made.clock.monotonic() == before
        assert release(made.objects, made.clock, accept_loss=True) is None
        await made.open("b")


async def test_a_copy_of_a_data_directory_waits_until_its_original_is_silent(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        await made.kill(first)
        shutil.copytree(tmp_path / "a", tmp_path / "copy")
        before = made.clock.monotonic()
        copy = await made.open("copy")
        assert made.clock.monotonic() - before >= 1.5 * LEASE
        assert await values_of(copy) == [b"0"]
        held = copy.on_leaving.args[0]  # type: ignore[attr-defined]
        shutil.copytree(tmp_path / "copy", tmp_path / "third", ignore=shutil.ignore_patterns("catalog*"))
        advance = made.clock.sleep

        def sleep(seconds: float) -> None:
            advance(seconds)
            held.beat()

        made.clock.sleep = sleep  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="is a copy of the data directory that is in use by"):
            await made.open("third")


async def test_a_lock_that_was_deleted_lets_no_second_process_in(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        first = await made.open("a")
        held = first.on_leaving.args[0]  # type: ignore[attr-defined]
        (tmp_path / "a" / LOCK_NAME).unlink()
        advance = made.clock.sleep

        def sleep(seconds: float) -> None:
            advance(seconds)
            held.beat()

        made.clock.sleep = sleep  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="in use by"):
            await made.open("a")
        assert not first.failed.done()


async def test_a_directory_that_was_moved_after_a_stop_need_not_wait(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a"), b"0")
        await first.close()
        shutil.copytree(tmp_path / "a", tmp_path / "elsewhere")
        before = made.clock.monotonic()
        assert await values_of(await made.open("elsewhere")) == [b"0"]
        assert made.clock.monotonic() == before


async def test_what_a_copy_of_the_store_says_of_its_holder_does_not_count(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await filled(first := await made.open("a", store="there"), b"0")
        await first.store.seal("orders")
        other = await made.open("b", store="here")
        assert await values_of(other) == [b"0"]


async def test_a_document_that_was_deleted_is_put_again(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        first = await made.open("a")
        made.objects.delete(paths.tenure(paths.SINGLE_NODE))
        await made.beat(first)
        assert not first.failed.done()
        with pytest.raises(Conflict):
            await made.open("b")


async def test_of_many_that_start_at_once_one_has_the_store(tmp_path: Path) -> None:
    objects, clock = LocalObjects(tmp_path / "cold"), ManualClock()
    holders = []
    for n in range(8):
        lock_directory(tmp_path / str(n))
        holders.append(hold(tmp_path / str(n), "here", LEASE, clock, SystemChance()))

    def start(n: int) -> bool:
        try:
            claim(objects, holders[n], clock, SystemChance())
        except Conflict:
            return False
        return True

    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(start, range(8))) == 1
        objects.delete(paths.tenure(paths.SINGLE_NODE))


async def test_a_damaged_identity_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        await (await made.open("a")).close()
        (tmp_path / "a" / IDENTITY_NAME).write_text("?")
        with pytest.raises(DataLoss, match="identity is damaged"):
            await made.open("a")
