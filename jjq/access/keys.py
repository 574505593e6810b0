"""A key, its scopes, and what they allow.

    jjq_<id: 16 hex>_<secret: 64 hex>     256 bits of chance; shown once, stored as SHA-256

A scope is a right and a pattern of queue names: `push:orders-*`. Without a pattern it is for all queues. The ledger of
a group, `<queue>~<group>`, is a part of its queue.

    push    push
    pop     create, move and delete subscribers; pop, peek, subscribe
    read    replay, peek; look at queues, blocks and subscribers
    work    take and finish tasks of groups; look at groups and tasks
    admin   everything, on these queues; for all queues also keys, nodes and shards
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from coldstore.shared.batch import from_us
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Denied, InvalidInput
from coldstore.shared.limits import NAME_CHARS_MAX
from jjq.access.quotas import Quota
from jjq.limits import KEY_SCOPES_MAX

RIGHTS: Final = ("push", "pop", "read", "work", "admin")
ANY: Final = "any"  # in place of a right: whatever right on the queue
_ALL: Final = "*"
_KEY: Final = re.compile(r"jjq_([0-9a-f]{16})_([0-9a-f]{64})")
_PATTERN: Final = re.compile(rf"[A-Za-z0-9._*-]{{1,{NAME_CHARS_MAX}}}")


class NoKey(Denied):
    """The caller shows no key, or one that is not known (any more)."""


@dataclass(frozen=True, slots=True)
class KeyScope:
    """A right on the queues whose names fit a pattern."""

    right: str
    pattern: str = _ALL

    @classmethod
    def parse(cls, text: str) -> KeyScope:
        right, _, pattern = text.partition(":")
        pattern = pattern or _ALL
        if right not in RIGHTS or not _PATTERN.fullmatch(pattern):
            raise InvalidInput(
                f"scope {text[:80]!r} is not RIGHT or RIGHT:PATTERN: use {', '.join(RIGHTS)}, and a queue's name in "
                f"which * stands for any letters, as in push:orders-*"
            )
        return cls(right, pattern)

    def __str__(self) -> str:
        return self.right if self.pattern == _ALL else f"{self.right}:{self.pattern}"

    def covers(self, queue: str | None) -> bool:
        """Whether the scope is for this queue; None: for all of them."""
        if self.pattern == _ALL or queue is None:
            return self.pattern == _ALL
        return fnmatchcase(queue.partition("~")[0], self.pattern)


def parse_scopes(texts: Iterable[str]) -> tuple[KeyScope, ...]:
    """Scopes as people write them, each once."""
    found = tuple(dict.fromkeys(KeyScope.parse(text) for text in texts))
    if not 1 <= len(found) <= KEY_SCOPES_MAX:
        raise InvalidInput(
            f"a key has 1 to {KEY_SCOPES_MAX} scopes, not {len(found)}: for instance --scope admin"
        )
    return found


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key as the server knows it: without its secret."""

    id: str
    name: str
    scopes: tuple[KeyScope, ...]
    sha256: str
    created_us: int
    quota: Quota = Quota()  # noqa: RUF009 - it is frozen

    @property
    def created(self) -> str:
        return from_us(self.created_us).isoformat().replace("+00:00", "Z")

    @property
    def rules(self) -> bool:
        """Whether it may do everything."""
        return any(scope.right == "admin" and scope.covers(None) for scope in self.scopes)

    def allows(self, rights: str, queue: str | None) -> bool:
        """Whether it has one of the rights (`pop|read`) on a queue; None: on all queues."""
        if rights == ANY and queue is None:
            return True
        wanted = {*rights.split("|"), "admin"}
        return any(scope.covers(queue) and (rights == ANY or scope.right in wanted) for scope in self.scopes)

    def require(self, rights: str, queue: str | None) -> None:
        """Return, or say what is missing."""
        if not self.allows(rights, queue):
            where = "all queues" if queue is None else f"queue {queue[:NAME_CHARS_MAX]!r}"
            own = ", ".join(map(str, self.scopes))
            raise Denied(
                f"key {self.id} has no right to {rights.replace('|', ' or ')} on {where}; it has {own}: use another key"
            )


class NewKey(NamedTuple):
    """A key, and its text, which nobody can ask for later."""

    key: AccessKey
    text: str


def make_key(
    name: str,
    scopes: Iterable[str],
    now_us: int,
    chance: Chance,
    quota: Quota = Quota(),  # noqa: B008
) -> NewKey:
    """A new key."""
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidInput(
            f"the name of a key has at most {NAME_CHARS_MAX} characters, all of them printable"
        )
    number, secret = chance.token()[:16], new_secret(chance)
    key = AccessKey(number, name, parse_scopes(scopes), digest(secret), now_us, quota)
    return NewKey(key, f"jjq_{number}_{secret}")


def new_secret(chance: Chance) -> str:
    """256 bits of chance."""
    return chance.token() + chance.token()


def digest(secret: str) -> str:
    """What is stored of a secret. A quick hash is right here: nobody can guess 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def split_key(text: str) -> tuple[str, str] | None:
    """Id and secret of a key's text, if it is one."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_secret_of(secret: str, key: AccessKey) -> bool:
    """In constant time."""
    return hmac.compare_digest(digest(secret), key.sha256)


def bearer(authorization: str | None) -> str | None:
    """The key of an Authorization header."""
    if authorization is None:
        return None
    kind, _, text = authorization.partition(" ")
    return text.strip() if kind.lower() == "bearer" else None
