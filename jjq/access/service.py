"""jjq.v1.Keys: decode, ask the keyring, encode. A file of its own: the other methods need no keyring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict

from jjq.access.keyring import Keyring
from jjq.access.keys import AccessKey
from jjq.access.quotas import Quota
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import request as parse

Verb = Callable[[bytes], Awaitable[bytes]]


def key_verbs(ring: Keyring) -> dict[str, Verb]:
    """The methods by name, coroutines from bytes to bytes."""

    async def create(raw: bytes) -> bytes:
        request = parse(pb.CreateKeyRequest, raw)
        asked = request.quota
        quota = Quota(asked.elements_per_second, asked.bytes_per_second, asked.streams, asked.queues)
        made = await ring.create(request.name, list(request.scopes), quota)
        return pb.CreateKeyResponse(key=_key_out(made.key), text=made.text).SerializeToString()

    async def list_(raw: bytes) -> bytes:
        parse(pb.ListKeysRequest, raw)
        return pb.ListKeysResponse(keys=[_key_out(key) for key in ring.every()]).SerializeToString()

    async def revoke(raw: bytes) -> bytes:
        await ring.revoke(parse(pb.RevokeKeyRequest, raw).id)
        return pb.RevokeKeyResponse().SerializeToString()

    return {"CreateKey": create, "ListKeys": list_, "RevokeKey": revoke}


def _key_out(key: AccessKey) -> pb.Key:
    scopes = [str(scope) for scope in key.scopes]
    return pb.Key(
        id=key.id,
        name=key.name,
        scopes=scopes,
        created_us=key.created_us,
        quota=pb.Quota(**asdict(key.quota)),
    )
