"""The keys as this node knows them.

The document is read every `KEYS_SECONDS`. When it has changed, every call and stream that waits is looked at again: one
whose key is gone, or has fewer rights, is ended. A document that cannot be read leaves the keys as they were.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from coldstore.layout.paths import check_name
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Denied, InvalidInput, JjqError
from jjq.access import document
from jjq.access.document import AccessDocument
from jjq.access.keys import AccessKey, NewKey, NoKey, is_secret_of, make_key, new_secret, split_key
from jjq.access.quotas import KeyUsage, Quota
from jjq.access.signatures import Signatures
from jjq.limits import KEYS_SECONDS

Recheck = Callable[[], None]


class Watched:
    """Work that is ended when `recheck` raises. While it is `busy` it is not broken off, and ends by itself."""

    __slots__ = ("busy", "end", "error", "recheck")

    def __init__(self, end: Callable[[], object] | None, recheck: Recheck) -> None:
        self.end = end
        self.recheck = recheck
        self.busy = False
        self.error: Denied | None = None


class Keyring:
    """See the module's docstring. `open` it before anything is served."""

    def __init__(
        self,
        objects: ObjectStore,
        clock: Clock,
        chance: Chance,
        log: structlog.typing.FilteringBoundLogger | None = None,
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._chance = chance
        self._log = log or structlog.get_logger("jjq.access")
        self._now = AccessDocument()
        self._by_id: dict[str, AccessKey] = {}
        self._usage: dict[str, KeyUsage] = {}
        self._signatures = Signatures(clock)
        self._watched: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    async def open(self, *, cluster: bool = False) -> None:
        """Read the keys, and go on reading them. Nodes of a cluster have a key of their own from the start."""
        if cluster:
            secret = new_secret(self._chance)
            self._take(await asyncio.to_thread(document.ensure_peer, self._objects, secret))
        else:
            await self.refresh()
        self._task = asyncio.create_task(self._look_periodically(), name="jjq-keys")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def closed(self) -> bool:
        """Whether calls are to be checked: a key is needed, or pushes to some queue are signed or limited."""
        return bool(self._by_id or self._now.signed or self._now.limits)

    @property
    def peer(self) -> str:
        """What nodes show each other."""
        return self._now.peer

    # Checks ----------------------------------------------------------------------------------------------

    def identify(self, text: str | None) -> AccessKey | None:
        """Whose key this is; None if no key is needed. `NoKey` if it is none of ours."""
        if not self._by_id:
            return None
        if text is None:
            raise NoKey("this server wants a key: give one as --key, JJQ_KEY, key=, or Authorization: Bearer")
        parts = split_key(text)
        key = None if parts is None else self._by_id.get(parts[0])
        if key is None or parts is None or not is_secret_of(parts[1], key):
            raise NoKey("the key is not known, or was revoked: use another one")
        return key

    def require(self, text: str | None, rights: str, queue: str | None) -> AccessKey | None:
        """Return if this key allows it; otherwise raise."""
        key = self.identify(text)
        if key is not None:
            key.require(rights, queue)
        return key

    def usage(self, key: AccessKey | None) -> KeyUsage | None:
        """What a key has used of its quota; None if it has none."""
        if key is None or not key.quota.is_set:
            return None
        found = self._usage.get(key.id)
        if found is None or found.quota != key.quota:
            found = self._usage[key.id] = KeyUsage(
                key.id, key.quota, self._clock, lambda queue: key.allows("admin", queue)
            )
        return found

    def check_signature(self, queue: str, header: str | None, body: bytes) -> None:
        """Return if a push to this queue may be taken: it is signed, or need not be."""
        secret = self._now.signed.get(queue)
        if secret is not None:
            self._signatures.check(queue, secret, header, body)

    def request_bytes(self, queue: str) -> int | None:
        """How large a push to this queue may be; None: as large as any."""
        return self._now.limits.get(queue)

    def check_size(self, queue: str, nbytes: int) -> None:
        """Return if a push of this size may be taken."""
        most = self._now.limits.get(queue)
        if most is not None and nbytes > most:
            raise InvalidInput(
                f"a push to queue {queue!r} has at most {most} bytes, and this one has {nbytes}: send several"
            )

    def require_peer(self, text: str | None) -> None:
        """Return if another node of the cluster asks."""
        if self._by_id and not (text and self.peer and hmac.compare_digest(text, self.peer)):
            raise NoKey("only nodes of the cluster may call this, with the key that they share")

    @contextmanager
    def watch(self, recheck: Recheck) -> Iterator[Watched]:
        """Around work that may wait for long: if `recheck` raises after a change of keys, that ends the work.

        Work that says that it is `busy` is not broken off: it has to raise `error` as soon as it is no longer.
        """
        task = asyncio.current_task()
        watched = Watched(None if task is None else task.cancel, recheck)
        self._watched.add(watched)
        try:
            yield watched
        except asyncio.CancelledError:
            if watched.error is not None and task is not None and task.uncancel() == 0:
                raise watched.error from None
            raise
        finally:
            self._watched.discard(watched)

    def attach(self, recheck: Recheck, end: Callable[[], object]) -> Watched:
        """The same for a connection, which is no task: `end` is called, until it is detached."""
        watched = Watched(end, recheck)
        self._watched.add(watched)
        return watched

    def detach(self, watched: Watched) -> None:
        self._watched.discard(watched)

    # Changes ---------------------------------------------------------------------------------------------

    def every(self) -> tuple[AccessKey, ...]:
        """All keys, oldest first."""
        return self._now.keys

    async def create(self, name: str, scopes: list[str], quota: Quota | None = None) -> NewKey:
        """A new key; its text is returned now and never again."""
        made = make_key(name, scopes, self._clock.now_us(), self._chance, quota or Quota())
        secret = new_secret(self._chance)
        self._take(await asyncio.to_thread(document.add_key, self._objects, made.key, secret))
        self._log.info("key created", key=made.key.id, scopes=[str(scope) for scope in made.key.scopes])
        return made

    async def revoke(self, number: str) -> None:
        """From now on nobody may use this key."""
        self._take(await asyncio.to_thread(document.remove_key, self._objects, number))
        self._log.info("key revoked", key=number)

    async def sign_queue(self, queue: str) -> str:
        """From now on pushes to this queue must be signed, with the secret that is returned and no other."""
        secret = new_secret(self._chance)
        self._take(await asyncio.to_thread(document.set_secret, self._objects, check_name(queue), secret))
        self._log.info("queue signed", queue=queue)
        return secret

    async def unsign_queue(self, queue: str) -> None:
        """Pushes to this queue need not be signed any more."""
        self._take(await asyncio.to_thread(document.set_secret, self._objects, check_name(queue), None))
        self._log.info("queue no longer signed", queue=queue)

    async def limit_queue(self, queue: str, request_bytes: int | None) -> None:
        """From now on pushes to this queue have at most so many bytes; None: as many as any."""
        self._take(
            await asyncio.to_thread(document.set_limit, self._objects, check_name(queue), request_bytes)
        )
        self._log.info("queue limited", queue=queue, request_bytes=request_bytes)

    async def refresh(self) -> None:
        """Read the keys as they are now."""
        self._take(await asyncio.to_thread(document.read_document, self._objects))

    def _take(self, now: AccessDocument) -> None:
        if now == self._now:
            return
        self._now = now
        self._by_id = {key.id: key for key in now.keys}
        self._usage = {number: usage for number, usage in self._usage.items() if number in self._by_id}
        for watched in list(self._watched):
            if watched.error is None and watched.end is not None:
                try:
                    watched.recheck()
                except Denied as error:
                    watched.error = error
                    if not watched.busy:
                        watched.end()

    async def _look_periodically(self) -> None:
        while True:
            await asyncio.sleep(KEYS_SECONDS)
            try:
                await self.refresh()
            except JjqError as error:
                self._log.warning("the keys could not be read; the known keys stay in force", why=str(error))
