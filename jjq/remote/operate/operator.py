"""`RemoteOperator`: the verbs of sharding.ports, answered by a server. The command line and nodes use it."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from jjq.limits import PAGE_ENTRIES
from jjq.remote.operate.operator_calls import M, OperatorCalls
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import cluster
from jjq.wire.pages import token
from jjq.wire.request import make_message
from jjq.wire.status import NoSuchMethod
from sharding.ports import Lost, Move, NodeState, Plan, Shard, Share, Takeover


class RemoteOperator(OperatorCalls):
    """An operator behind one or several servers; all its verbs may happen twice. `close` it."""

    async def _call(self, method: str, request: Message, reply: type[M]) -> M:
        try:
            return await super()._call(method, request, reply)
        except NoSuchMethod:
            raise NoSuchMethod(
                "this server is in no cluster, which is what nodes and shards are for: start it with --node NAME, or "
                "name a server that was; `jjq status` shows this one"
            ) from None

    async def nodes(self) -> list[NodeState]:
        reply = await self._call("ListNodes", pb.ListNodesRequest(), pb.ListNodesResponse)
        return [cluster.node_in(node) for node in reply.nodes]

    async def drain(self, node: str, *, undo: bool = False) -> NodeState:
        request = make_message(pb.DrainNodeRequest, node=node, undo=undo)
        return cluster.node_in((await self._call("DrainNode", request, pb.DrainNodeResponse)).node)

    async def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover:
        request = make_message(pb.TakeOverRequest, node=node, accept_loss=accept_loss, dry_run=dry_run)
        reply = await self._call("TakeOver", request, pb.TakeOverResponse)
        lost = tuple(Lost(each.queue, each.first_offset) for each in reply.lost)
        return Takeover(node, "disk" if lost else "s3", tuple(reply.queues), lost)

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]]:
        scope = f"shards {queue} {node}"
        request: Any = make_message(
            pb.ListShardsRequest, queue=queue, node=node, page_token=token(scope, after)
        )
        found: dict[str, list[Shard]] = {}
        while limit is None or len(found) < limit:
            request.page_size = PAGE_ENTRIES if limit is None else min(PAGE_ENTRIES, limit - len(found))
            reply = await self._call("ListShards", request, pb.ListShardsResponse)
            for shard in map(cluster.shard_in, reply.shards):
                found.setdefault(shard.queue, []).append(shard)
            request.page_token = reply.next_page_token
            if not request.page_token:
                break
        return found

    async def plan(self, leaving: str = "") -> Plan:
        reply = await self._call(
            "PlanMoves", make_message(pb.PlanMovesRequest, leaving=leaving), pb.PlanMovesResponse
        )
        moves = tuple(Move(cluster.shard_in(each.shard), each.to) for each in reply.moves)
        return Plan(moves, tuple(Share(each.node, each.before, each.after) for each in reply.shares))

    async def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        request = make_message(pb.MoveShardRequest, queue=queue, to=to, first_offset=first)
        return cluster.shard_in((await self._call("MoveShard", request, pb.MoveShardResponse)).shard)

    async def prepare(self, queue: str) -> None:
        await self._call(
            "PrepareMove", make_message(pb.PrepareMoveRequest, queue=queue), pb.PrepareMoveResponse
        )

    async def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]:
        request = make_message(pb.SplitQueueRequest, queue=queue, parts=parts, dry_run=dry_run)
        reply = await self._call("SplitQueue", request, pb.SplitQueueResponse)
        return [cluster.shard_in(shard) for shard in reply.shards]
