"""`jjq release`: who has a store, and letting another one have it."""

from __future__ import annotations

from pathlib import Path

import pytest

import jjq as client_of
from tests.jjq.cli.command import Command


def test_it_says_who_has_a_store_and_releases_what_was_stopped(alone: Command, tmp_path: Path) -> None:
    cold, data = str(tmp_path / "cold"), tmp_path / "data"
    with client_of.open(data, cold) as client:
        client.create_queue("orders")
        client.push("orders", [b"a"])
        assert f"data directory {data}" in alone("release", "--cold", cold, "--json").json["holder"]
    shown = alone("release", "--cold", cold)
    assert (shown.code, "a server that was stopped" in shown.text) == (0, True)
    assert shown.errors.startswith("nothing was changed")
    released = alone.ok("release", "--cold", cold, "--accept-loss", "--json").json
    assert released["released"] is True
    assert alone.ok("release", "--cold", cold, "--json").json == {"holder": None, "released": False}
    assert "nobody" in alone.ok("release", "--cold", cold).text
    assert "jjq queue accept-loss QUEUE" in alone.ok("release", "--help").text
    with client_of.open(tmp_path / "other", cold) as client:
        # The cold store knows that an element was acknowledged on the other disk. Its loss is accepted for the queue.
        with pytest.raises(client_of.DataLoss, match=r"elements 0\.\.0 were acknowledged"):
            client.push("orders", [b"b"])
        lost = client.accept_loss("orders")
        assert (lost.ranges, lost.cause) == (
            ((0, 1),),
            "elements were acknowledged but are neither in the journal nor in the cold store",
        )
        assert client.push("orders", [b"b"]).first_offset == 1


def test_a_place_without_a_store_is_not_found(alone: Command, tmp_path: Path) -> None:
    ran = alone("release", "--cold", str(tmp_path / "nothing"))
    assert (ran.code, "nothing was ever written" in ran.errors) == (3, True)
    assert not (tmp_path / "nothing").exists()
