"""`python -m tests.faults.work.worker ADDRESS GROUP NOTES CALLERS`: takes and acks until it is killed.

Each line of the notes is `VERB TIME TASK ATTEMPT`. A take is noted with the time when it was asked for, an ack with the
time when it was answered: a task whose ack was answered before a take was asked for must not be in that take. Lines
are written at once, so kill -9 of this process loses none, and the clock is that of the whole machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import NamedTuple

import jjq.aio
from coldstore.shared.clock import SystemClock

TAKE_SECONDS = 1.0  # that a take waits for a task


class Note(NamedTuple):
    """What a worker was told."""

    verb: str  # take, ack, or late: the ack was refused, since the task's time was over
    time: float
    task: int
    attempt: int


def read_notes(text: str) -> list[Note]:
    """The whole lines: the last one of a killed process may be cut."""
    lines = text.split("\n")[:-1]
    return [Note(verb, float(time), int(task), int(n)) for verb, time, task, n in map(str.split, lines)]


async def take_and_ack(client: jjq.aio.Client, group: str, notes: int) -> None:
    """One caller. A server that is away is asked again."""
    clock = SystemClock()

    def note(verb: str, time: float, task: jjq.Task) -> None:
        os.write(notes, f"{verb} {time!r} {task.id} {task.attempt}\n".encode())

    while True:
        asked = clock.monotonic()
        try:
            tasks = await client.take(group, 1, TAKE_SECONDS)
        except jjq.Unavailable:
            continue
        for task in tasks:
            note("take", asked, task)
            while True:
                try:
                    await client.ack(group, task)
                except jjq.Unavailable:
                    continue  # the outcome is unknown, and an ack may be repeated
                except jjq.Conflict:
                    note("late", clock.monotonic(), task)
                else:
                    note("ack", clock.monotonic(), task)
                break


async def main(address: str, group: str, path: str, callers: int) -> None:
    notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with jjq.aio.connect(address, timeout=60.0) as client:
        while True:
            try:
                await client.session(ttr=1.0)
                break
            except jjq.Unavailable:  # a client that never reached a server is told at once that there is none
                await asyncio.sleep(0.1)
        await asyncio.gather(*(take_and_ack(client, group, notes) for _ in range(callers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
