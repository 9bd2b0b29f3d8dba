"""The engine's measured rate."""

from __future__ import annotations

import pytest

from server_stub.node.state import rates
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import World

__all__: list[str] = []


def test_the_rate_follows_what_is_measured(world: World) -> None:
    tx = SqliteTx(world.connection)
    assert rates.local_flops_per_s(tx) == 0.0
    assert world.handle(lambda s: rates.learn(s, 10**9, 0.1)) == pytest.approx(1e10)
    assert world.handle(lambda s: rates.learn(s, 10**9, 0.05)) == pytest.approx(1.2e10)
    assert rates.local_flops_per_s(tx) == pytest.approx(1.2e10)


@pytest.mark.parametrize(("flops", "compute_s"), [(10**6, 1.0), (10**12, 0.001), (0, 0.0)])
def test_what_is_too_short_to_measure_counts_nothing(
    world: World, flops: int, compute_s: float
) -> None:
    world.handle(lambda s: rates.learn(s, 10**9, 0.1))
    assert world.handle(lambda s: rates.learn(s, flops, compute_s)) == pytest.approx(1e10)
