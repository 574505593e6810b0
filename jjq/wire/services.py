"""The names of our gRPC services."""

from __future__ import annotations

from typing import Final

from jjq.v1 import jjq_pb2 as pb

JJQ: Final = pb.DESCRIPTOR.services_by_name["Jjq"].full_name
OPERATOR: Final = pb.DESCRIPTOR.services_by_name["Operator"].full_name
KEYS: Final = pb.DESCRIPTOR.services_by_name["Keys"].full_name
# The same methods between nodes: never forwarded.
PEER: Final = "jjq.v1.Peer"
PEER_OPERATOR: Final = "jjq.v1.PeerOperator"
SOCKET_SERVICES: Final = frozenset({JJQ, PEER})  # that can be had over WebSocket, too

# Methods that change nothing that anybody could miss: "the outcome is unknown" would only frighten their callers.
READING: Final = frozenset({
    "DownloadObject", "GetGroup", "GetGroupStatistics", "GetQueue", "GetSubscriber", "GetTransports", "ListBlocks",
    "ListGroups", "ListKeys", "ListNodes", "ListQueues", "ListShards", "ListSubscribers", "ListTasks", "Peek",
    "PeekTask", "PlanMoves", "Query", "Read", "Sleep", "Subscribe", "TasksAt", "Wakeup",
})  # fmt: skip
