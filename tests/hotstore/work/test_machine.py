"""Random work on a group and on its oracle, with a clock moved by hand, kills, power cuts and seals in between."""

from __future__ import annotations

import random  # noqa: TID251 the seed comes from the test
from dataclasses import replace
from typing import Any

import pytest

from coldstore.shared.errors import Conflict, Exhausted
from hotstore.groups.values import GroupSettings
from tests.hotstore.kit import BLOCK_BYTES, World
from tests.hotstore.work.kit import change, put, states, take
from tests.hotstore.work.oracle import SECOND, OracleGroup

SESSIONS = ("ann", "bob")
VERBS = ("ack", "nack", "release", "touch", "bury", "delete", "kick")


class Machine:
    """One world, one group, one oracle; `durable` is what a crash may not take back."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(seed)
        driver = self.random.choice(["fifo", "fifottl", "limfifottl", "utube", "utubettl"])
        times = driver.endswith("ttl")
        self.times = times
        self.settings = GroupSettings(
            driver=driver,
            ttr=self.random.choice([5.0, 60.0]),
            ttl=self.random.choice([None, None, 40.0]) if times else None,
            delay=self.random.choice([0.0, 0.0, 3.0]) if times else 0.0,
            max_attempts=self.random.choice([None, 2, 3]),
            on_exhausted=self.random.choice(["bury", "drop"]),
            capacity=self.random.choice([6, 30]) if driver == "limfifottl" else None,
            per_key=self.random.choice([None, 2]) if driver.startswith("utube") else None,
        )
        self.oracle = OracleGroup(self.settings, keyed=driver.startswith("utube"))
        self.durable = self.oracle.copy()

    async def run(self, steps: int) -> None:
        await self.world.start()
        self.world.engine.work.lazy_seconds = 1e6
        await self.world.store.create_queue("q", block_bytes=BLOCK_BYTES)
        await self.world.store.create_group("q", "g", self.settings)
        self._sync()
        steps_of = [self.push, self.push, self.take, self.take, self.take, self.change, self.change, self.change,
                    self.wait, self.kick, self.look, self.seal, self.restart, self.whole]  # fmt: skip
        for _ in range(steps):
            await self.random.choice(steps_of)()
        await self.restart()
        await self.look()
        await self.world.close()

    def _sync(self) -> None:
        self.oracle.advance(self.world.clock.now_us())

    async def push(self) -> None:
        self._sync()
        options: dict[str, Any] = {}
        if self.times and self.random.random() < 0.5:
            options["priority"] = self.random.randint(-2, 2)
        if self.times and self.random.random() < 0.3:
            options["delay"] = self.random.choice([1.0, 10.0])
        if self.times and self.random.random() < 0.3:
            options["ttl"] = self.random.choice([2.0, 20.0])
        key = self.random.choice([None, b"a", b"b"])
        count = self.random.randint(1, 4)
        left = sum(task.state != "done" for task in self.oracle.tasks)
        if self.settings.capacity is not None and left + count > self.settings.capacity:
            with pytest.raises(Exhausted, match=f"{left} tasks of at most {self.settings.capacity}"):
                await put(self.world.store, *[b"x"] * count, key=key, **options)
            return
        await put(self.world.store, *[b"x"] * count, key=key, **options)
        now_us = self.world.clock.now_us()
        for each in (self.oracle, self.durable):
            for _ in range(count):
                each.push(now_us, key, options.get("delay"), options.get("ttl"), options.get("priority"))

    async def take(self) -> None:
        self._sync()
        most, session = self.random.randint(1, 5), self.random.choice(SESSIONS)
        stage = self.random.choice(["ready", "synced"])
        taken = await take(self.world.store, most, session=session, stage=stage)
        if taken and (await self.world.store.get_queue("q")).cold_offset:
            most = len(taken)  # where blocks must be loaded, fewer may come at once
        wanted = [] if self.oracle.paused else self.oracle.take(most, session)
        assert taken == wanted
        if wanted and stage == "synced":
            self.durable = self.oracle.copy()

    async def change(self) -> None:
        self._sync()
        if not self.oracle.tasks:
            return
        verb, session = self.random.choice(VERBS), self.random.choice(SESSIONS)
        tasks = self.random.sample(self.oracle.tasks, min(3, len(self.oracle.tasks)))
        picked = [(task.id, task.attempt) for task in tasks]
        more: dict[str, Any] = (
            {"delay": self.random.choice([0.0, 4.0])} if verb in ("nack", "release") else {}
        )
        if verb == "touch":
            more["seconds"] = 7.0
        given: Any = picked if verb in ("ack", "nack", "release", "touch") else [task for task, _ in picked]
        outcome = await change(self.world.store, verb, given, session=session, **more)  # type: ignore[arg-type]
        changed = [task for task, attempt in picked if self._apply(verb, task, attempt, session, more)]
        assert outcome.changed == len(changed), (verb, picked, session, outcome)
        assert {error.id for error in outcome.errors} == {task for task, _ in picked} - set(changed)
        self.durable = self.oracle.copy()

    def _apply(self, verb: str, task: int, attempt: int, session: str, more: dict[str, Any]) -> bool:
        oracle, found = self.oracle, self.oracle.tasks[task]
        delay_us = round(more.get("delay", 0.0) * SECOND)
        if verb in ("ack", "nack", "release", "touch"):
            if oracle.holds(task, attempt, session) is None:
                return False
            if verb == "ack":
                found.state = "done"
            elif verb == "nack":
                oracle.fail(found, delay_us)
            elif verb == "release":
                oracle.back(found, delay_us)
            else:
                found.until_us += 7 * SECOND
                found.expires_us = None if found.expires_us is None else found.expires_us + 7 * SECOND
            return True
        if found.state == "done" or (verb == "kick" and found.state != "buried"):
            return False
        if verb == "kick":
            found.failures = 0
            oracle.back(found, 0)
        else:
            found.state, found.session = "buried" if verb == "bury" else "done", ""
        return True

    async def kick(self) -> None:
        self._sync()
        count = self.random.randint(1, 3)
        buried = sorted(
            (task for task in self.oracle.tasks if task.state == "buried"),
            key=lambda task: (task.priority, task.id),
        )
        assert await self.world.store.kick("q/g", count) == len(buried[:count])
        for task in buried[:count]:
            task.failures = 0
            self.oracle.back(task, 0)
        self.durable = self.oracle.copy()

    async def whole(self) -> None:
        """A verb on the group as a whole."""
        self._sync()
        verb = self.random.choice([self.purge, self.release_all, self.pause, self.seek, self.update])
        await verb()
        self.durable = self.oracle.copy()

    async def purge(self) -> None:
        open_ = [task for task in self.oracle.tasks if task.state != "done"]
        assert await self.world.store.purge_group("q/g") == len(open_)
        for task in open_:
            task.state, task.session = "done", ""

    async def release_all(self) -> None:
        taken = [task for task in self.oracle.tasks if task.state == "taken"]
        assert await self.world.store.release_all("q/g") == len(taken)
        for task in taken:
            self.oracle.back(task, 0)

    async def pause(self) -> None:
        self.oracle.paused = not self.oracle.paused
        await self.world.store.pause_group("q/g", paused=self.oracle.paused)

    async def seek(self) -> None:
        """Forward only, and to the end: what lies before is no task of the group any more."""
        if any(task.state == "taken" for task in self.oracle.tasks):
            with pytest.raises(Conflict, match="are taken"):
                await self.world.store.seek_group("q/g", "end")
            return
        await self.world.store.seek_group("q/g", "end")
        for task in self.oracle.tasks:
            task.state, task.gone = "done", True

    async def update(self) -> None:
        self.settings = replace(self.settings, max_attempts=self.random.choice([None, 2, 3]))
        await self.world.store.update_group("q/g", {"max_attempts": self.settings.max_attempts})
        self.oracle.settings = self.settings

    async def wait(self) -> None:
        self.world.clock.advance(self.random.choice([0.5, 3.0, 12.0, 70.0]))
        if self.random.random() < 0.5:
            self.world.engine.work.tick()

    async def look(self) -> None:
        self._sync()
        assert await states(self.world.store) == self.oracle.states()
        for info in await self.world.store.list_tasks("q/g"):
            task = self.oracle.tasks[info.id]
            assert (info.state, info.attempt, info.session) == (task.state, task.attempt, task.session)
        group = await self.world.engine.work.group("q/g")
        group.live.state.check_counts()

    async def seal(self) -> None:
        queue = self.random.choice(["q", "q~g"])
        sealed = (await self.world.store.get_queue(queue)).cold_offset
        info = await self.world.store.seal(queue)
        await self.world.quiet()
        if queue == "q~g" and info.cold_offset > sealed:  # the snapshot has written what waited
            self._sync()
            self.durable = self.oracle.copy()

    async def restart(self) -> None:
        self._sync()
        kind = self.random.choice(["crash", "close"])
        if kind == "close":
            await self.world.close()
            await self.world.start()
            self.durable = self.oracle.copy()
        else:
            await self.world.restart()
        self.world.engine.work.lazy_seconds = 1e6  # what nobody waits for is not written by chance
        self.oracle = self.durable
        self.oracle.crash(self.world.clock.now_us())
        await self.world.engine.work.load_all()
        self.durable = self.oracle.copy()


@pytest.mark.parametrize("seed", range(30))
async def test_a_group_does_what_its_oracle_does(seed: int) -> None:
    await Machine(seed).run(60)
