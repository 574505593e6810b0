"""A writer under load, as a process: `python -m tests.jjq.spark.writer FOLDER`, until its standard input ends.

Adds young and final blocks to queue `orders`, merges and sweeps at once, and says after each step up to
which offset everything is committed.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from coldstore.shared.chance import SeededChance
from tests.jjq.spark.making import make


def main(folder: str) -> None:
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=[ended], daemon=True).start()
    made, chance = make(Path(folder), [100]), SeededChance(1)
    while not ended.wait(0.02):
        count = 50 + int(chance.token()[:2], 16)
        made.add(count, final=count % 5 == 0, width=300)
        if count % 3 == 0:
            made.queue.merge()
        if count % 4 == 0:
            made.queue.sweep(grace_seconds=-1)
        print(made.queue.next_offset, flush=True)


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main(sys.argv[1])
