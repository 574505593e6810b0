"""Walking through a node's journal on object storage, and ending it with a fence.

The journal of the runs up to R, from number `first` on:

    object, no fence           a batch: go on at the next number
    fence of runs before R     a restart: go on at the number that it names
    fence of R or later        the end
    nothing                    put a fence there if absent. Done: the end. Not done: look again

The writer acknowledges in order and has its puts in flight within JOURNAL_WINDOW numbers, so at the first
absent number nothing was acknowledged, there or behind it; and once the fence is there, nothing ever
will be. All walkers of R end at the same fence, whatever arrives later, because fences are never deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, DataLoss, NotFound
from hotstore.journal.port import Damage, JournalPlace
from sharding.journal import objects as journalobject
from sharding.journal.objects import JournalObject
from sharding.limits import JOURNAL_READS_MAX, JOURNAL_WINDOW


class Walk:
    """One walk, to be taken to its end; then `end` is the number of the fence, and `next` what follows it."""

    def __init__(self, objects: ObjectStore, node: str, first: int, run: int, token: bytes) -> None:
        self.damage: list[Damage] = []
        self.end = -1
        self.next = -1
        self._objects = objects
        self._node = node
        self._first = first
        self._run = run
        self._token = token

    def batches(self) -> Iterator[JournalObject]:
        """Every object in order, but for fences. The last fence is put after the last one was taken."""
        with ThreadPoolExecutor(JOURNAL_READS_MAX, "jjq-walk") as pool:
            yield from self._batches(pool)

    def _batches(self, pool: ThreadPoolExecutor) -> Iterator[JournalObject]:
        ahead: deque[Future[bytes | None]] = deque()
        at = fetched = self._first
        while True:
            while len(ahead) < JOURNAL_READS_MAX:
                ahead.append(pool.submit(self._get, fetched))
                fetched += 1
            data = ahead.popleft().result()
            while data is None:
                if self._put_fence(at):
                    return
                data = self._get(at)
            found = self._decode(data, at)
            if found is None:
                at += 1
            elif not found.is_fence:
                yield found
                at += 1
            elif found.run >= self._run:
                self.end, self.next = at, found.next
                return
            else:
                at = fetched = found.next
                ahead.clear()

    def _get(self, number: int) -> bytes | None:
        try:
            return self._objects.get(paths.journal(self._node, number)).data
        except NotFound:
            return None

    def _decode(self, data: bytes, number: int) -> JournalObject | None:
        """The object; None if it is damaged, which is reported and never hidden."""
        key = paths.journal(self._node, number)
        try:
            return journalobject.decode(data, number, key)
        except DataLoss as error:
            place = JournalPlace(key, 0, len(data))
            self.damage.append(Damage("corrupt", number, number, (place,), error.message))
            return None

    def _put_fence(self, number: int) -> bool:
        """Whether the journal ends at `number` now, by our doing."""
        self._check_no_hole(number)
        next_ = number + JOURNAL_WINDOW
        fence = journalobject.fence(number, self._run, self._token, next_)
        try:
            self._objects.put_if_absent(paths.journal(self._node, number), fence)
        except Conflict:
            return False
        failpoint.reach("takeover.fenced")
        self.end, self.next = number, next_
        return True

    def _check_no_hole(self, number: int) -> None:
        """What a run has in flight lies within the window; an object behind it says that this one was deleted."""
        last = paths.journal(self._node, number + JOURNAL_WINDOW - 1)
        behind = next(self._objects.list(paths.journal_folder(self._node), last), None)
        if behind is not None:
            key = paths.journal(self._node, number)
            raise DataLoss(
                f"journal object {key} is missing, yet {behind.key} is there: somebody deleted it; restore it "
                f"from a version or a copy, then start again",
                key=key,
            )
