"""Whether a disk is quick enough to be waited for on the event loop.

A small group is written there while the disk is quick, as handing it to a thread and back costs as much as the write
(committer.py). But then everybody waits for a sync that takes long, and on a shared disk one does now and then.
A file of its own: the committer is long enough without it.
"""

from __future__ import annotations

from typing import Final

_QUICK_SECONDS: Final = 0.001
_WEIGHT: Final = 1 / 8  # of the last write in the average
_STALL_SECONDS: Final = 0.004  # of a write that should not have been waited for on the loop
_WARY: Final = 16
_WARIEST: Final = 1_024
_FORGET: Final = 0.998  # what a quick write on the loop leaves of that


class DiskPace:
    """The disk is quick if small writes are on the average, and if none of the last ones was a stall.

    After a stall the next `_WARY` small writes go to the thread, after another one twice as many. On a shared disk one
    comes now and then and says little of the next: so few of many writes are held against it.
    """

    def __init__(self) -> None:
        self._average = 8 * _QUICK_SECONDS  # not before it has shown to be
        self._wary = 0  # small writes that go to the thread, whatever the average …
        self._next_wary = float(_WARY)  # … after the next stall

    def note(self, seconds: float) -> None:
        self._average += (seconds - self._average) * _WEIGHT
        if seconds >= _STALL_SECONDS:
            self._wary = int(self._next_wary)
            self._next_wary = min(2 * self._next_wary, _WARIEST)
        elif self._wary:
            self._wary -= 1
        else:
            self._next_wary = max(_WARY, self._next_wary * _FORGET)

    @property
    def quick(self) -> bool:
        return not self._wary and self._average < _QUICK_SECONDS
