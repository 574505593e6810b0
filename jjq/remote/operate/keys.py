"""`RemoteKeys`: the keys of servers, asked over gRPC. The command line uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from coldstore.shared.batch import from_us
from jjq.access.quotas import Quota
from jjq.remote.operate.operator_calls import OperatorCalls
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.request import make_message


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key, without its secret."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created: datetime
    quota: Quota


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key, and its text, which is shown once."""

    key: KeyInfo
    text: str = field(repr=False)


class RemoteKeys(OperatorCalls):
    """The keys behind one or several servers. `close` it."""

    async def create(self, name: str, scopes: Sequence[str], quota: Quota) -> CreatedKey:
        limits = make_message(pb.Quota, **asdict(quota))
        request = make_message(pb.CreateKeyRequest, name=name, scopes=list(scopes), quota=limits)
        reply = await self._call("CreateKey", request, pb.CreateKeyResponse)
        return CreatedKey(_key(reply.key), reply.text)

    async def list(self) -> list[KeyInfo]:
        reply = await self._call("ListKeys", pb.ListKeysRequest(), pb.ListKeysResponse)
        return [_key(key) for key in reply.keys]

    async def revoke(self, number: str) -> None:
        await self._call("RevokeKey", make_message(pb.RevokeKeyRequest, id=number), pb.RevokeKeyResponse)


def _key(message: pb.Key) -> KeyInfo:
    limits = message.quota
    quota = Quota(limits.elements_per_second, limits.bytes_per_second, limits.streams, limits.queues)
    return KeyInfo(message.id, message.name, tuple(message.scopes), from_us(message.created_us), quota)
