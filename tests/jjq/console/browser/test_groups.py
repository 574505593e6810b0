"""The screens of worker groups: every action, against a group of its own."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")


@pytest.fixture(scope="module", autouse=True)
def jobs(stage: Stage) -> None:
    stage.ask("PUT", "queues/jobs", {"content": "json"})
    stage.push("jobs", *({"value": {"n": n}} for n in range(12)))


def make_group(stage: Stage, name: str, take: int = 0) -> str:
    """A group over the twelve jobs, some of them taken; its path."""
    stage.ask("POST", "queues/jobs/groups", {"name": name, "settings": {"driver": "fifottl", "ttr": 600}})
    if take:
        order = {"max": take, "worker": "w", "session": "s", "stage": "synced"}
        stage.ask("POST", f"queues/jobs/groups/{name}/take", order)
    return f"/groups/jobs/{name}"


def select(console: Console, *ids: int) -> None:
    for each in ids:
        console.page.get_by_label(f"Select task {each}", exact=True).check()


def test_a_group_is_made_paused_changed_and_deleted(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open("/groups", "Groups")
    console.press("New group").choose("Queue", "jobs")
    console.page.get_by_label("Name", exact=True).fill("made-here")
    console.page.get_by_label("Most attempts", exact=True).fill("3")
    console.confirm("Create")
    console.sees("Group jobs/made-here hands out 12 tasks.")
    expect(console.tile("ready")).to_have_text("12")
    console.press("Pause")
    console.sees("paused")
    assert stage.ask("GET", "queues/jobs/groups/made-here")["paused"] is True
    console.press("Resume")
    console.sees("Tasks are handed out again.")
    console.press("Settings")
    console.page.get_by_label("Time to run (seconds)", exact=True).fill("5")
    console.press("Change")
    console.sees("Changed; it holds from now on.")
    found = stage.ask("GET", "queues/jobs/groups/made-here")["settings"]
    assert (found["ttr"], found["max_attempts"]) == (5, 3)
    console.press("Delete group")
    console.sees("12 ready", inside=console.dialog())
    console.confirm("Delete", "jobs/made-here")
    console.sees("Group jobs/made-here is deleted.")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Groups")


def test_tasks_are_selected_and_changed(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_group(stage, "bulk", take=4), "bulk")
    select(console, 4, 5, 6)
    console.press("Bury")
    console.sees("3 tasks", inside=console.dialog())
    console.page.get_by_label("Reason", exact=True).fill("by hand")
    console.confirm("Bury 3 tasks")
    expect(console.tile("buried")).to_have_text("3")
    console.page.locator(".state-tile.taken").click()
    expect(console.rows("Tasks")).to_have_count(4)
    select(console, 0, 1)
    console.press("Release")
    console.confirm("Release 2 tasks")
    expect(console.tile("taken")).to_have_text("2")
    console.page.locator(".state-tile.buried").click()
    expect(console.rows("Tasks")).to_have_count(3)
    console.sees("by hand")
    select(console, 4)
    console.press("Kick")
    console.confirm("Kick 1 task")
    expect(console.tile("buried")).to_have_text("2")
    console.press("Kick all 2")
    console.confirm("Kick 2 tasks")
    expect(console.tile("buried")).to_have_text("0")
    console.sees("No task is buried")
    console.page.locator(".state-tile.ready").click()
    select(console, 11)
    console.press("Delete")
    console.sees("done without being worked on", inside=console.dialog())
    console.confirm("Delete 1 task")
    expect(console.tile("done")).to_have_text("1")
    console.press("Bury all 9")
    console.confirm("Bury 9 tasks")
    expect(console.tile("buried")).to_have_text("9")


def test_everything_is_released_and_purged_after_a_question(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_group(stage, "purged", take=5), "purged")
    console.press("Release all")
    console.sees("5 taken tasks", inside=console.dialog())
    console.confirm("Release all")
    expect(console.tile("ready")).to_have_text("12")
    console.press("Purge")
    console.sees("12 tasks", inside=console.dialog())
    console.press("Cancel")
    console.press("Purge")
    console.confirm("Purge", "jobs/purged")
    console.sees("12 tasks purged.")
    expect(console.tile("done")).to_have_text("12")


def test_a_change_by_somebody_else_is_seen_at_once(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_group(stage, "live"), "live")
    expect(console.tile("taken")).to_have_text("0")
    stage.ask("POST", "queues/jobs/groups/live/take", {"max": 2})
    expect(console.tile("taken")).to_have_text("2")


def test_a_task_has_a_life_and_verbs(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open("/groups/orders/ship/tasks/52", "Task 52")
    life = console.page.locator(".life li b")
    expect(life).to_have_text(["Pushed", "Seen by the group", "Taken", "Failed", "Buried", "Kicked"])
    console.sees("timeout after 30 s")
    console.sees(re.compile("by boris, attempt 1"))
    make_group(stage, "one")
    console.open("/groups/jobs/one/tasks/3", "Task 3")
    console.press("Bury")
    console.confirm("Bury")
    expect(life).to_have_text(["Pushed", "Seen by the group", "Buried"])
    console.press("Kick")
    console.confirm("Kick")
    console.press("Delete")
    console.confirm("Delete")
    expect(life.last).to_have_text("Deleted")


def test_the_bar_of_a_short_life_is_full(stage: Stage, visit: Visit) -> None:
    stage.ask("PUT", "queues/short", {"content": "json"})
    stage.ask("POST", "queues/short/groups", {"name": "work"})
    stage.push("short", {"value": 1})
    stage.ask("POST", "queues/short/groups/work/take", {"session": "s"})
    stage.ask("POST", "queues/short/groups/work/ack", {"tasks": [{"id": 0, "attempt": 1}], "session": "s"})
    console = visit(stage).open("/groups/short/work/tasks/0", "Task 0")
    bar = console.page.locator(".state-bar.tall")
    empty = "bar => bar.getBoundingClientRect().right - bar.lastChild.getBoundingClientRect().right"
    assert abs(bar.evaluate(empty)) < 1


def test_the_queue_at_a_time_and_what_changed(stage: Stage, visit: Visit) -> None:
    path = make_group(stage, "past", take=3)
    done = {"tasks": [{"id": 0, "attempt": 1}], "session": "s"}
    stage.ask("POST", "queues/jobs/groups/past/ack", done)
    console = visit(stage).open(f"{path}?view=past", "past")
    for state, number in {"ready": 9, "taken": 2, "done": 1}.items():
        expect(console.tile(state)).to_have_text(str(number))
    expect(console.rows("Tasks at that time")).to_have_count(12)
    slider = console.page.get_by_label("Time", exact=True)
    slider.focus()
    console.page.keyboard.press("Home")
    expect(console.tile("ready")).to_have_text("0")  # the moment before the group saw them
    console.page.keyboard.press("End")
    expect(console.tile("done")).to_have_text("1")
    console.page.get_by_label("Compare with an earlier time").check()
    changes = console.region("What changed").locator("li")
    expect(changes).to_have_count(3)
    console.sees("9 tasks", inside=changes.first)
    console.choose("State", "done")
    expect(console.rows("Tasks at that time")).to_have_count(1)
