"""How much is done: for figures that count, and for a quick look."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.figures import Work


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    seconds: float  # of one round of pushing or reading
    pool_bytes: int
    fan_elements: int  # that each of 1 subscriber gets; with more subscribers fewer
    rate: int  # elements a second, for the latency from push to subscriber
    latency_seconds: float
    growth: tuple[int, ...]  # elements of history at which a push is timed; the last is the whole history
    growth_pushes: int
    restarts: int


FULL = Scale(5, 2.0, 40_000_000, 100_000, 500, 10.0, (100_000, 1_000_000, 10_000_000), 500, 3)
SHORT = Scale(
    3, 1.0, 20_000_000, 50_000, 500, 5.0, (100_000, 1_000_000), 300, 2
)  # about a quarter of an hour
QUICK = Scale(2, 0.2, 4_000_000, 5_000, 200, 0.5, (1_000, 10_000, 100_000), 50, 1)
TINY = Scale(1, 0.02, 200_000, 200, 200, 0.05, (100, 200, 1_000), 5, 1)  # for tests of the bench itself

SCALES = {"full": FULL, "short": SHORT, "quick": QUICK, "tiny": TINY}

SIZES = (100, 1_000)
SUBSCRIBERS = (1, 10, 100)


def works(scale: Scale) -> list[Work]:
    """All lines of the table, in their order."""
    found = []
    for size in SIZES:
        label = "100 B" if size == 100 else "1 KB"
        found += [
            Work(f"push.each.{size}", f"push {label}, one by one, batched by the client", "elements/s"),
            Work(f"push.list.{size}", f"push {label}, lists of 1,000, one list in flight", "elements/s"),
            Work(f"push.64.{size}", f"push {label}, 64 in flight", "elements/s"),
            Work(f"push.1.{size}", f"push {label}, 1 in flight", "elements/s"),
        ]
    found.append(Work("native", "push 100 B, the system's own load generator", "elements/s"))
    found.append(Work("tail", "consume what was just pushed, 100 B, as Python objects", "elements/s"))
    found += [
        Work(f"fan.{count}", f"fan-out to {count} subscriber{'s'[: count - 1]}, 100 B", "deliveries/s")
        for count in SUBSCRIBERS
    ]
    found += [
        Work(f"latency.{part}", f"push to subscriber at {scale.rate}/s, {part}", "ms", False)
        for part in ("p50", "p99")
    ]
    found += [
        Work(f"growth.{count}", f"push 100 B, 1 in flight, after {count:,} elements, p50", "ms", False)
        for count in scale.growth
    ]
    history = f"{scale.growth[-1] * 100 / 1e9:g} GB of history"
    return [
        *found,
        Work("replay", f"replay {history}, as Python objects", "MB/s"),
        Work("replay.arrow", f"replay {history}, as Arrow batches", "MB/s"),
        Work("memory.idle", "memory, idle and empty", "MB", False),
        Work("memory.written", f"memory, after writing {history}", "MB", False),
        Work("memory.restarted", f"memory, restarted with {history}", "MB", False),
        Work("start", "start, empty, until the first push", "s", False),
        Work("restart", f"restart with {history}, until the next push", "s", False),
        Work("stored", "bytes on disk for an element of 100 B", "bytes", False),
    ]
