"""Routes of the operator: status, nodes, shards."""

from __future__ import annotations

from coldstore.shared.errors import NotFound
from jjq.http.replies import Reply, document
from jjq.http.request import Request
from jjq.http.routing import LATER, HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.http.v1.queues import PAGE, queue_of, requested_page
from sharding.ports import Operations


def _operations(request: Request) -> Operations:
    operator = request.backend.operator
    if operator is None:
        raise NotFound(
            "this server is alone and has no other nodes: start it with --node to make it one of a cluster"
        )
    return operator


async def _status(request: Request) -> Reply:
    request.query()
    return document(
        doc.StatusList([doc.status_document(each) for each in await request.backend.store.status()])
    )


async def _nodes(request: Request) -> Reply:
    request.query()
    return document(doc.NodeList([doc.node_document(each) for each in await _operations(request).nodes()]))


async def _drain(request: Request) -> Reply:
    wanted = await request.decode(doc.DrainOrder)
    state = await _operations(request).drain(request.params["node"], undo=wanted.undo)
    return document(doc.node_document(state))


async def _take_over(request: Request) -> Reply:
    wanted = await request.decode(doc.TakeOverOrder)
    done = await _operations(request).take_over(
        request.params["node"], accept_loss=wanted.accept_loss, dry_run=wanted.dry_run
    )
    return document(doc.takeover_document(done))


async def _shards(request: Request) -> Reply:
    query = request.query("page_size", "page_token", "queue", "node")
    queue, node = query.get("queue", ""), query.get("node", "")
    request.require("admin", queue or None)
    page = requested_page(request, f"shards {queue} {node}", "queue", "node")
    found = await _operations(request).shards(queue, node, after=page.place, limit=page.limit)
    queues, token = page.cut(list(found), lambda name: name)
    shards = [doc.shard_document(each) for name in queues for each in found[name]]
    return document(doc.ShardPage(shards, token))


async def _plan(request: Request) -> Reply:
    leaving = request.query("leaving").get("leaving", "")
    return document(doc.plan_document(await _operations(request).plan(leaving)))


async def _move(request: Request) -> Reply:
    wanted = await request.decode(doc.MoveOrder)
    moved = await _operations(request).move(queue_of(request), wanted.to, wanted.first_offset)
    return document(doc.shard_document(moved))


async def _split(request: Request) -> Reply:
    wanted = await request.decode(doc.SplitOrder)
    shards = await _operations(request).split(queue_of(request), wanted.parts, dry_run=wanted.dry_run)
    return document(doc.ShardPage([doc.shard_document(each) for each in shards]))


ROUTES = (
    HttpRoute("GET", "/v1/status", _status, "get_status", "How the nodes are", "any", reply=doc.StatusList),
    HttpRoute("GET", "/v1/nodes", _nodes, "list_nodes", "The nodes of the cluster", reply=doc.NodeList),
    HttpRoute(
        "POST", "/v1/nodes/{node}/drain", _drain, "drain_node", "Send no new queues to a node, and plan its leaving",
        body=doc.DrainOrder, reply=doc.NodeDocument,
    ),
    HttpRoute(
        "POST", "/v1/nodes/{node}/take-over", _take_over, "take_over", "Serve the queues of a dead node",
        body=doc.TakeOverOrder, reply=doc.TakeoverDocument,
    ),
    HttpRoute(
        "GET", "/v1/shards", _shards, "list_shards", "Which node serves which part of which queue",
        queue=LATER, reply=doc.ShardPage,
        parameters=(*PAGE, Parameter("queue", "of this queue alone"), Parameter("node", "of this node alone")),
    ),
    HttpRoute(
        "GET", "/v1/plan", _plan, "plan_moves", "Moves that would even out the load", reply=doc.PlanDocument,
        parameters=(Parameter("leaving", "a node that is to be emptied"),),
    ),
    HttpRoute(
        "POST", "/v1/queues/{queue}/move", _move, "move_shard", "Let another node serve a queue, or a part of it",
        queue="queue", body=doc.MoveOrder, reply=doc.ShardDocument,
    ),
    HttpRoute(
        "POST", "/v1/queues/{queue}/split", _split, "split_queue", "Spread the history of a queue over nodes",
        queue="queue", body=doc.SplitOrder, reply=doc.ShardPage,
    ),
)  # fmt: skip
