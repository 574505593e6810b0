"""A process that writes a journal and says what it was promised, until it is killed.

    python -m tests.hotstore.journal.victim DIRECTORY BATCHES

Prints `synced N` each time that everything below N is durable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Record
from hotstore.limits import SEGMENT_BYTES_MIN


def content(sequence: int) -> bytes:
    return b"%d," % sequence * (50 + sequence * 331 % 1_500)


def say(synced_upto: int) -> None:
    # One system call: the kill may come from the other thread, in the middle of a buffered print.
    os.write(1, b"synced %d\n" % synced_upto)


def main() -> None:
    failpoint.arm_from(os.environ)
    journal = DiskJournal(RealDisk(Path(sys.argv[1])), SystemChance(), segment_bytes=SEGMENT_BYTES_MIN)
    for batch in journal.recover():
        assert bytes(batch.records[0].payload) == content(batch.sequence)
    say(journal.next_sequence)
    for count in range(int(sys.argv[2])):
        sequence = journal.append([Record(1, content(journal.next_sequence))])
        if count % 3:
            journal.sync()
            say(sequence + 1)
        if count % 5 == 4:
            journal.trim(sequence - 4)
    journal.close()


if __name__ == "__main__":
    main()
