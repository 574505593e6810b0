"""The protocol of takeover and fencing holds in every order of steps, and each mistake in it is found."""

from __future__ import annotations

import pytest

from tests.sharding.takeover.model import Rules, explore

MISTAKES = {
    "no check after the put": Rules(check_after_put=False),
    "acknowledged out of order": Rules(acknowledge_in_order=False),
    "412 taken for a fence": Rules(look_at_412=False),
    "fence deleted": Rules(keep_fences=False),
    "deleted before the boundary": Rules(boundary_first=False),
    "trimmed beyond the minimum": Rules(trim_cold_only=False),
    "no fence": Rules(fence=False),
    "the next run right behind the fence": Rules(window=False),
}


def test_nothing_acknowledged_is_lost_in_any_order() -> None:
    assert explore(Rules()) > 10_000


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_protocol_is_found(mistake: str) -> None:
    with pytest.raises(AssertionError):
        explore(MISTAKES[mistake])
