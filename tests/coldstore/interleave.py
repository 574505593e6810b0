"""Every order in which the steps of several actors can happen, one run for each.

An actor is a function that runs in a thread of its own and touches the world only through `Stepped`
objects. Each of their verbs is a step: the actor stops before it until the explorer lets it go on.
Orders that differ only in neighbouring steps that do not touch one another are tried once (sleep
sets), which leaves out most of them and no outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_READS = ("get", "head", "list")


@dataclass(frozen=True)
class Step:
    """What an actor is about to do."""

    verb: str
    key: str

    @property
    def reads(self) -> bool:
        return self.verb in _READS

    def commutes_with(self, other: Step) -> bool:
        if self.reads and other.reads:
            return True
        for one, two in ((self, other), (other, self)):
            if one.verb == "list" and two.key.startswith(one.key):
                return False
        return self.key != other.key


class _Abandoned(BaseException):
    """Nobody waits for this actor any longer."""


class Actor:
    """A thread that stops before each step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pending: Step | None = None
        self.error: BaseException | None = None
        # Locks that one side takes and the other gives back. Semaphores are made of these, in Python.
        self._go = threading.Lock()
        self._stopped = threading.Lock()
        self._go.acquire()
        self._stopped.acquire()
        self._abandoned = False

    def start(self, body: Callable[[], None]) -> None:
        def run() -> None:
            try:
                body()
            except _Abandoned:
                pass
            except BaseException as error:  # noqa: BLE001 told to the test, in its thread
                self.error = error
            self.pending = None
            self._stopped.release()

        threading.Thread(target=run, name=self.name, daemon=True).start()
        self._wait()

    def stop_before(self, step: Step) -> None:
        """Called by the actor itself."""
        if not self._abandoned:
            self.pending = step
            self._stopped.release()
            self._go.acquire()
        if self._abandoned:
            raise _Abandoned

    def go(self) -> None:
        """Let the actor do its pending step, and all that follows up to the next one."""
        self._go.release()
        self._wait()

    def abandon(self) -> None:
        """End the actor where it stands, without its pending step."""
        self._abandoned = True
        self.go()

    def _wait(self) -> None:
        if not self._stopped.acquire(timeout=30):
            raise TimeoutError(f"{self.name} neither stopped nor ended after {self.pending}")


class Stepped:
    """An ObjectStore, or anything else with verbs that take a key first, seen by one actor."""

    def __init__(self, inner: Any, actor: Actor) -> None:
        self._inner = inner
        self._actor = actor

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._inner, verb)

        def stepped(key: str, *args: Any, **kwargs: Any) -> Any:
            self._actor.stop_before(Step(verb, key))
            done = inner(key, *args, **kwargs)
            return iter(list(done)) if verb == "list" else done

        return stepped


class World:
    """One run: actors to start, and what to check after every step and at the end."""

    def bodies(self) -> Mapping[str, Callable[[Actor], None]]:
        raise NotImplementedError

    def after_step(self) -> None:
        """Whatever must hold at every instant."""

    def at_end(self) -> None:
        """Whatever must hold when all actors are done."""


@dataclass
class _Node:
    pending: dict[str, Step]
    sleeping: frozenset[str]
    chosen: str
    tried: set[str] = field(default_factory=set)

    def sleepers_after(self) -> frozenset[str]:
        step = self.pending[self.chosen]
        waiting = (self.sleeping | self.tried) - {self.chosen}
        return frozenset(name for name in waiting if self.pending[name].commutes_with(step))

    def rest(self) -> list[str]:
        return [name for name in self.pending if name not in self.tried and name not in self.sleeping]


def explore(make: Callable[[], World]) -> Iterator[World]:
    """Run every order; yields each finished world after its checks held."""
    path: list[_Node] = []
    while True:
        world = make()
        if _run(world, path):
            world.at_end()
            yield world
        while path:
            path[-1].tried.add(path[-1].chosen)
            rest = path[-1].rest()
            if rest:
                path[-1].chosen = rest[0]
                break
            path.pop()
        if not path:
            return


def _run(world: World, path: list[_Node]) -> bool:
    """Follow `path`, then go on with whoever comes first. False if another run covers this order."""
    actors = {name: Actor(name) for name in world.bodies()}
    for name, body in world.bodies().items():
        actors[name].start(lambda body=body, name=name: body(actors[name]))  # type: ignore[misc]
    depth = 0
    while pending := {name: actor.pending for name, actor in actors.items() if actor.pending is not None}:
        if depth == len(path):
            sleeping = path[-1].sleepers_after() if path else frozenset()
            awake = [name for name in pending if name not in sleeping]
            if not awake:
                for name in pending:
                    actors[name].abandon()
                break
            path.append(_Node(dict(pending), sleeping, awake[0]))
        actors[path[depth].chosen].go()
        depth += 1
        world.after_step()
    for actor in actors.values():
        if actor.error is not None:
            raise actor.error
    return not pending
