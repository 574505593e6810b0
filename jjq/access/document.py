"""The keys of a store as one document, so that every node knows them: `access.json`, changed by compare-and-swap.

{"check":"<hex>","format":1,
 "keys":[{"created":1767225600000000,"id":"<16 hex>","name":"billing","scopes":["pop:orders-*"],
          "sha256":"<hex of the secret's digest>",
          "quota":{"bytes_per_second":0.0,"elements_per_second":1000.0,"streams":8}}, …],   only where it has one
 "signed":{"orders":"<64 hex>"},   secrets of signed queues; only where there are any
 "limits":{"orders":65536},     bytes of a push to a queue, at most; only where there are any
 "peer":"<64 hex>"}             the key that nodes show each other; a reader of the object store may do all anyway
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from coldstore.layout.paths import ACCESS
from coldstore.layout.sealed_json import seal, unseal
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared.errors import Conflict, Exhausted, NotFound, Unavailable
from coldstore.shared.limits import METADATA_BYTES_MAX
from jjq.access.keys import AccessKey, KeyScope
from jjq.access.quotas import Quota
from jjq.limits import LIMITED_QUEUES_MAX, SIGNED_QUEUES_MAX

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class AccessDocument:
    """All that nodes share about access."""

    keys: tuple[AccessKey, ...] = ()
    peer: str = ""
    signed: Mapping[str, str] = field(default_factory=dict)  # secrets, by queue
    limits: Mapping[str, int] = field(default_factory=dict)  # bytes of a push, by queue

    def encode(self) -> bytes:
        rows = [
            {
                "id": key.id,
                "name": key.name,
                "scopes": [str(scope) for scope in key.scopes],
                "sha256": key.sha256,
                "created": key.created_us,
                **_quota_row(key.quota),
            }
            for key in self.keys
        ]
        fields: dict[str, Any] = {"keys": rows, "peer": self.peer}
        fields |= {"signed": dict(self.signed)} if self.signed else {}
        fields |= {"limits": dict(self.limits)} if self.limits else {}
        data = seal(fields, FORMAT)
        if len(data) > METADATA_BYTES_MAX:
            raise Exhausted(
                f"the list of {len(self.keys)} keys is full: revoke keys that nobody uses, then retry"
            )
        return data


def decode(data: bytes) -> AccessDocument:
    fields = unseal(data, ACCESS, FORMAT)
    keys = tuple(_key(row) for row in fields["keys"])
    return AccessDocument(keys, fields["peer"], fields.get("signed", {}), fields.get("limits", {}))


def _quota_row(quota: Quota) -> dict[str, Any]:
    """Only limits that are set: a release that does not know one of them reads the others."""
    limits = {name: most for name, most in asdict(quota).items() if most}
    return {"quota": limits} if limits else {}


def _key(row: dict[str, Any]) -> AccessKey:
    scopes = tuple(KeyScope.parse(text) for text in row["scopes"])
    quota = Quota(**row.get("quota", {}))
    return AccessKey(row["id"], row["name"], scopes, row["sha256"], row["created"], quota)


def read_document(objects: ObjectStore) -> AccessDocument:
    """As it is now. Blocks."""
    try:
        return decode(objects.get(ACCESS).data)
    except NotFound:
        return AccessDocument()


def _change(objects: ObjectStore, decide: Any) -> AccessDocument:
    def swapped(found: Object | None) -> Change[AccessDocument]:
        now = AccessDocument() if found is None else decode(found.data)
        after = decide(now)
        return Change(None if after == now else after.encode(), after)

    return swap(
        objects, ACCESS, swapped, busy=Unavailable("others are changing the keys at the moment: retry")
    ).result


def ensure_peer(objects: ObjectStore, secret: str) -> AccessDocument:
    """Make the nodes' own key, unless there is one. Blocks."""
    return _change(objects, lambda now: now if now.peer else replace(now, peer=secret))


def add_key(objects: ObjectStore, key: AccessKey, peer: str) -> AccessDocument:
    """Add a key; the first one must be able to make others. Blocks."""

    def decide(now: AccessDocument) -> AccessDocument:
        if not now.keys and not key.rules:
            raise Conflict(
                "the first key must have the scope admin, for all queues: from then on nobody may do anything without "
                "a key, and without that one nobody could make another"
            )
        return replace(now, keys=(*now.keys, key), peer=now.peer or peer)

    return _change(objects, decide)


def set_secret(objects: ObjectStore, queue: str, secret: str | None) -> AccessDocument:
    """Give a queue another secret, or none. Blocks."""

    def decide(now: AccessDocument) -> AccessDocument:
        signed = {name: text for name, text in now.signed.items() if name != queue}
        if secret is not None:
            signed[queue] = secret
        elif queue not in now.signed:
            raise NotFound(f"queue {queue!r} is not signed")
        if len(signed) > SIGNED_QUEUES_MAX:
            raise Exhausted(f"{SIGNED_QUEUES_MAX} queues are signed, which is the limit: end one first")
        return replace(now, signed=signed)

    return _change(objects, decide)


def set_limit(objects: ObjectStore, queue: str, most: int | None) -> AccessDocument:
    """Limit pushes to a queue to so many bytes, or no more. Blocks."""

    def decide(now: AccessDocument) -> AccessDocument:
        limits = {name: nbytes for name, nbytes in now.limits.items() if name != queue}
        if most is not None:
            limits[queue] = most
        if len(limits) > LIMITED_QUEUES_MAX:
            raise Exhausted(f"{LIMITED_QUEUES_MAX} queues have limits, which is the most: remove one first")
        return replace(now, limits=limits)

    return _change(objects, decide)


def remove_key(objects: ObjectStore, number: str) -> AccessDocument:
    """Remove a key; the last one with the scope admin stays. Blocks."""

    def decide(now: AccessDocument) -> AccessDocument:
        left = tuple(key for key in now.keys if key.id != number)
        if len(left) == len(now.keys):
            raise NotFound(f"there is no key {number[:40]!r}: `jjq key list` shows all keys")
        if not any(key.rules for key in left):
            raise Conflict(f"key {number} is the last one with the scope admin: create another one first")
        return replace(now, keys=left)

    return _change(objects, decide)
