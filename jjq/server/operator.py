"""jjq.v1.Operator: decode, ask the operator, encode. The same for clients and for other nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jjq.v1 import jjq_pb2 as pb
from jjq.wire import cluster
from jjq.wire.batches import request as parse
from jjq.wire.pages import Page
from jjq.wire.services import OPERATOR, PEER_OPERATOR
from sharding.ports import Operations

Verb = Callable[[bytes], Awaitable[bytes]]


class OperatorVerbs:
    """`tables` maps the names of services to their methods, coroutines from bytes to bytes."""

    def __init__(self, cluster: Operations, local: Operations) -> None:
        self.cluster = cluster
        self._local = local

    def tables(self) -> dict[str, dict[str, Verb]]:
        return {OPERATOR: _table(self.cluster), PEER_OPERATOR: _table(self._local)}


def _table(operations: Operations) -> dict[str, Verb]:
    verbs: list[tuple[str, Any, Callable[[Operations, Any], Awaitable[Any]]]] = [
        ("ListNodes", pb.ListNodesRequest, _list_nodes),
        ("DrainNode", pb.DrainNodeRequest, _drain_node),
        ("TakeOver", pb.TakeOverRequest, _take_over),
        ("ListShards", pb.ListShardsRequest, _list_shards),
        ("PlanMoves", pb.PlanMovesRequest, _plan_moves),
        ("MoveShard", pb.MoveShardRequest, _move_shard),
        ("PrepareMove", pb.PrepareMoveRequest, _prepare_move),
        ("SplitQueue", pb.SplitQueueRequest, _split_queue),
    ]
    return {name: _verb(operations, kind, verb) for name, kind, verb in verbs}


def _verb(operations: Operations, kind: Any, verb: Callable[[Operations, Any], Awaitable[Any]]) -> Verb:
    async def call(raw: bytes) -> bytes:
        reply = await verb(operations, parse(kind, raw))
        return bytes(reply.SerializeToString())

    return call


async def _list_nodes(operations: Operations, request: pb.ListNodesRequest) -> pb.ListNodesResponse:
    return pb.ListNodesResponse(nodes=[cluster.node_out(each) for each in await operations.nodes()])


async def _drain_node(operations: Operations, request: pb.DrainNodeRequest) -> pb.DrainNodeResponse:
    found = await operations.drain(request.node, undo=request.undo)
    return pb.DrainNodeResponse(node=cluster.node_out(found))


async def _take_over(operations: Operations, request: pb.TakeOverRequest) -> pb.TakeOverResponse:
    done = await operations.take_over(request.node, accept_loss=request.accept_loss, dry_run=request.dry_run)
    return pb.TakeOverResponse(
        queues=done.moved, lost=[pb.Lost(queue=each.queue, first_offset=each.first) for each in done.lost]
    )


async def _list_shards(operations: Operations, request: pb.ListShardsRequest) -> pb.ListShardsResponse:
    page = Page.requested(f"shards {request.queue} {request.node}", request.page_size, request.page_token)
    found = await operations.shards(request.queue, request.node, after=page.place, limit=page.limit)
    queues, token = page.cut(list(found), lambda queue: queue)
    shards = [cluster.shard_out(each) for queue in queues for each in found[queue]]
    return pb.ListShardsResponse(shards=shards, next_page_token=token)


async def _plan_moves(operations: Operations, request: pb.PlanMovesRequest) -> pb.PlanMovesResponse:
    plan = await operations.plan(request.leaving)
    return pb.PlanMovesResponse(
        moves=[pb.Move(shard=cluster.shard_out(each.shard), to=each.to) for each in plan.moves],
        shares=[pb.NodeShare(node=each.node, before=each.before, after=each.after) for each in plan.shares],
    )


async def _move_shard(operations: Operations, request: pb.MoveShardRequest) -> pb.MoveShardResponse:
    first = request.first_offset if request.HasField("first_offset") else None
    moved = await operations.move(request.queue, request.to, first)
    return pb.MoveShardResponse(shard=cluster.shard_out(moved))


async def _prepare_move(operations: Operations, request: pb.PrepareMoveRequest) -> pb.PrepareMoveResponse:
    await operations.prepare(request.queue)
    return pb.PrepareMoveResponse()


async def _split_queue(operations: Operations, request: pb.SplitQueueRequest) -> pb.SplitQueueResponse:
    shards = await operations.split(request.queue, request.parts, dry_run=request.dry_run)
    return pb.SplitQueueResponse(shards=[cluster.shard_out(each) for each in shards])
