"""The cluster screen over two real nodes: plan, run, watch, move, drain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import QUEUES, Stage, staged_cluster
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.xdist_group("console")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The first of two nodes, which has all queues. The tests are run in their order."""
    with staged_cluster(tmp_path_factory.mktemp("cluster")) as (one, _):
        yield one


def owners(node: Stage) -> list[str]:
    return [shard["node"] for shard in node.ask("GET", "shards")["shards"]]


def test_a_rebalance_is_planned_seen_run_and_watched(node: Stage, visit: Visit) -> None:
    console = visit(node).open("/cluster", "Cluster")
    console.sees("2 nodes, 2 alive")
    expect(console.rows("Shards")).to_have_count(len(QUEUES))
    console.check_access()
    console.press("Plan a rebalance")
    console.sees("Share of the load", inside=console.dialog())
    console.check_access()
    moves = console.dialog().locator(".moves li").count()
    assert moves > 0
    console.dialog().get_by_role("button", name="Move ").click()
    console.sees("Rebalance", inside=console.region("Rebalance"))
    expect(console.region("Rebalance").get_by_text("moved", exact=True)).to_have_count(moves)
    assert owners(node).count("node-2") == moves
    console.press("Close")
    expect(console.region("Rebalance")).to_have_count(0)


def test_one_shard_is_moved(node: Stage, visit: Visit) -> None:
    console = visit(node, width=400, theme="dark").open("/cluster", "Cluster")
    console.page.get_by_label("Search shards").fill(QUEUES[0])
    expect(console.rows("Shards")).to_have_count(1)
    before = node.ask("GET", f"shards?queue={QUEUES[0]}")["shards"][0]["node"]
    console.press(f"Move {QUEUES[0]}")
    console.sees(before, inside=console.dialog())
    console.check_width()
    console.confirm("Move")
    console.sees("1 shard moved.")
    assert node.ask("GET", f"shards?queue={QUEUES[0]}")["shards"][0]["node"] != before


def test_a_node_is_drained_after_a_dry_run_and_a_question(node: Stage, visit: Visit) -> None:
    console = visit(node).open("/cluster", "Cluster")
    held = owners(node).count("node-2")
    console.region("node-2").get_by_role("button", name="Drain").click()
    console.sees(f"{held} shard", inside=console.dialog())
    console.press("Cancel")
    assert owners(node).count("node-2") == held
    console.region("node-2").get_by_role("button", name="Drain").click()
    console.confirm("Drain node-2", "node-2")
    wait_until(lambda: "node-2" not in owners(node), "node-2 is empty")
    console.sees("draining", inside=console.region("node-2"))
    console.region("node-2").get_by_role("button", name="End draining").click()
    console.sees("node-2 takes new queues again.")


def test_a_take_over_says_what_is_lost_before_it_is_confirmed(node: Stage, visit: Visit) -> None:
    """A node that is dead for the page alone: to wait for a real death takes a lease and a half."""
    asked: list[Any] = []
    nodes = [{**each, "alive": each["id"] != "node-2"} for each in node.ask("GET", "nodes")["nodes"]]

    def take_over(route: Route) -> None:
        asked.append(route.request.post_data_json)
        lost = [{"queue": QUEUES[0], "first_offset": 1200}]
        route.fulfill(json={"queues": [QUEUES[0], QUEUES[1]], "lost": lost})

    console = visit(node)
    console.page.route("**/v1/nodes", lambda route: route.fulfill(json={"nodes": nodes}))
    console.page.route("**/v1/nodes/node-2/take-over", take_over)
    console.open("/cluster", "Cluster")
    console.region("node-2").get_by_role("button", name="Take over its queues").click()
    console.sees(f"{QUEUES[0]} from offset 1,200 on", inside=console.dialog())
    assert [each["dry_run"] for each in asked] == [True]
    console.confirm("Take over", "node-2")
    console.sees("2 queues taken over.")
    assert asked[1:] == [{"dry_run": False, "accept_loss": True}]
