"""Hours of volunteers: the lab's clock bounds the device's word, and each month begins anew."""

from __future__ import annotations

import pytest

from server_stub.node.state import grid_hours
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import Shape, World

__all__: list[str] = []

MAY_S, JUNE_S = 1_780_271_999.0, 1_780_272_000.0


@pytest.mark.parametrize(
    ("claimed_s", "committed_s", "counts_s"),
    [(7.0, 110.0, 7.0), (7e9, 110.0, 10.0), (7.0, None, 0.0), (7.0, 90.0, 0.0), (-1.0, 110.0, 0.0)],
)
def test_what_a_device_claims_counts_as_far_as_time_has_passed(
    claimed_s: float, committed_s: float | None, counts_s: float
) -> None:
    assert grid_hours.of_lease(claimed_s, 100.0, committed_s) == counts_s


def test_hours_are_booked_for_the_owner_by_month(world: World) -> None:
    mine = world.submit(Shape(1, 1, "product"), owner="ann", name="a")
    also = world.submit(Shape(1, 1, "product"), owner="ann", name="b")
    other = world.submit(Shape(1, 1, "product"), owner="bob", name="c")
    tx = SqliteTx(world.connection)
    assert (grid_hours.month_of(MAY_S), grid_hours.month_of(JUNE_S)) == ("2026-05", "2026-06")
    grid_hours.add(tx, MAY_S, {mine: 3600.0, also: 1800.0, other: 60.0, "job_gone": 1.0})
    grid_hours.add(tx, MAY_S, {mine: 1800.0})
    grid_hours.add(tx, JUNE_S, {mine: 36.0})
    assert grid_hours.used(tx, "ann", MAY_S) == 2.0
    assert grid_hours.used(tx, "ann", JUNE_S) == 0.01
    assert grid_hours.used(tx, "bob", JUNE_S) == 0.0
