"""Nodes and shards as messages, and back."""

from __future__ import annotations

from jjq.v1 import jjq_pb2 as pb
from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.documents.tenure import JournalKind
from sharding.ports import NodeState, Shard

_JOURNALS = {"disk": pb.JOURNAL_KIND_DISK, "s3": pb.JOURNAL_KIND_S3}


def load_out(load: Load) -> pb.Load:
    return pb.Load(
        history_bytes=load.bytes, memory_bytes=load.memory, traffic=load.traffic, shards=load.count
    )


def load_in(message: pb.Load) -> Load:
    return Load(message.history_bytes, message.traffic, message.memory_bytes, message.shards)


def node_out(state: NodeState) -> pb.Node:
    node = state.node
    return pb.Node(
        id=node.id,
        address=node.address,
        alive=state.alive,
        draining=node.draining,
        journal=_JOURNALS[node.journal],
        load=load_out(node.load),
        version=node.version,
        uptime_seconds=node.uptime_seconds,
    )


def node_in(message: pb.Node) -> NodeState:
    journal: JournalKind = "s3" if message.journal == pb.JOURNAL_KIND_S3 else "disk"
    node = Node(
        message.id,
        message.address,
        "",
        journal,
        draining=message.draining,
        load=load_in(message.load),
        version=message.version,
        uptime_seconds=message.uptime_seconds,
    )
    return NodeState(node, message.alive)


def shard_out(shard: Shard) -> pb.Shard:
    return pb.Shard(
        queue=shard.queue,
        first_offset=shard.first,
        next_offset=shard.next,
        node=shard.node,
        epoch=shard.epoch,
        load=load_out(shard.load),
    )


def shard_in(message: pb.Shard) -> Shard:
    return Shard(
        message.queue,
        message.first_offset,
        message.next_offset if message.HasField("next_offset") else None,
        message.node,
        message.epoch,
        load_in(message.load),
    )
