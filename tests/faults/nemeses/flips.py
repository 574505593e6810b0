"""Flipped bits in the journal, in blocks, in metadata and in the newest checkpoint; in a copy, a *twin*.

The server is stopped and started again; meanwhile its data directory was copied. In the copy a bit is
flipped, and a server on it is read whole: it may say that something is damaged, it may have a sound
copy elsewhere, but it must not give other bytes, and must not forget without a word. Stopped, and not
killed, because a clean end leaves no doubt whether the last batch had been synced.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.node import Node
from tests.faults.reading import Reader

PAGE = 4_096
WHERE = {
    "journal": "journal/*.seg",
    "block": "cold/queues/*/data/*.parquet",
    "metadata": "cold/queues/*/meta/*.json",
    "checkpoint": "checkpoints/*.duckdb",
}
FLIPS_IN = {"journal": 4, "block": 1, "metadata": 1, "checkpoint": 1}


def _flip(harm: Harm, data: Path, what: str) -> bool:
    """Flip a bit in one of the files, or some in the journal; False if there is no file yet."""
    files = sorted(path for path in data.glob(WHERE[what]) if path.stat().st_size)
    pages = [(path, at) for path in files for at in range(0, path.stat().st_size, PAGE) if _used(path, at)]
    for _ in range(FLIPS_IN[what] if pages else 0):
        path, page = pages[harm.below(len(pages))]
        content = bytearray(path.read_bytes())
        # Most of a journal is zeros that mean nothing: flip where something stands.
        places = [at for at in range(page, min(page + PAGE, len(content))) if content[at]]
        at = places[harm.below(len(places))]
        content[at] ^= 1 << harm.below(8)
        path.write_bytes(content)
        harm.notes.setdefault("flipped", []).append(f"{path.relative_to(data)} at {at}")
    return bool(pages)


def _used(path: Path, at: int) -> bool:
    with path.open("rb") as file:
        file.seek(at)
        return any(file.read(PAGE))


async def _read(harm: Harm, address: str, taken: int) -> None:
    async with Reader(address, harm.pen) as reader:
        for queue in harm.queues:
            await reader.whole("twin", queue, taken=taken)
            await reader.suspects("twin", queue, taken=taken)


def _twin(harm: Harm, what: str) -> None:
    node = harm.node
    folder = harm.folder / f"twin-{node.starts}"
    node.stop()
    taken = harm.now_ns()
    shutil.copytree(node.data, folder / "data")
    node.start()
    if _flip(harm, folder / "data", what):
        twin = Node(folder, bug=node.bug)
        try:
            twin.start()
            asyncio.run(_read(harm, twin.listens, taken))
        finally:
            twin.kill()
            harm.notes["damage"] = [line for line in twin.log.read_text().splitlines() if "Damage" in line][
                :3
            ]
    shutil.rmtree(folder)


def _nemesis(what: str) -> Nemesis:
    return Nemesis(f"flip-{what}", lambda harm: _twin(harm, what), alone=True)


FLIPS = tuple(_nemesis(what) for what in WHERE)
