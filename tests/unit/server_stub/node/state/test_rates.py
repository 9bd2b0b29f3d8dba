"""The engine's measured rate, and what is believed of a device."""

from __future__ import annotations

import pytest

from server_stub.node.state import rates
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import World

__all__: list[str] = []


def verified(
    world: World, device: str, flops: int, issued_s: float, committed_s: float,
    state: str = "accepted",
) -> None:  # fmt: skip
    """A lease of a device with its task."""
    change = world.connection.execute
    (number,) = change("select count(*) from task").fetchone()
    change(
        "insert into task(id, public, job, number, state, executor, prio, affinity, graph, verify,"
        " verify_flops, flops, bytes_moved, memory_bound_bytes, min_memory_bytes, min_sandbox,"
        " slot_bytes, waits, consumers_left, since_s) values(?, 't', 'j', ?, 'used', 'grid', 0, 0,"
        " 'g', 'product', 0, ?, 0, 0, 0, 0, 0, 0, 0, 0)",
        (number + 1, number, flops),
    )
    change(
        "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state, issued_s,"
        " until_s, committed_s) values(?, ?, 'j', 'first', ?, 'o', 'b', ?, ?, ?, 0, ?)",
        (
            f"lease_{number}",
            number + 1,
            device,
            "" if device == "local" else "g",
            state,
            issued_s,
            committed_s,
        ),
    )


def test_a_device_is_as_fast_as_its_verified_results_came(world: World) -> None:
    tx = SqliteTx(world.connection)
    assert rates.grid_flops_per_s(tx) == {}
    # Two leases at once, computed one after the other; then two that come together.
    verified(world, "queued", 10**10, 100.0, 102.0)
    verified(world, "queued", 10**10, 100.0, 104.0)
    verified(world, "together", 10**10, 100.0, 104.0)
    verified(world, "together", 10**10, 100.0, 104.0)
    verified(world, "liar", 10**15, 100.0, 101.0, "rejected")
    verified(world, "small", 10**6, 100.0, 101.0)
    verified(world, "local", 10**10, 100.0, 101.0)
    assert rates.grid_flops_per_s(tx) == {"queued": 5e9, "together": 5e9}


def test_claims_are_bounded_until_there_is_a_measure() -> None:
    assert rates.believed(2e9, None, 0.0) == 2e9
    assert rates.believed(1e18, None, 0.0) == rates.CLAIM_FLOPS_PER_S
    assert rates.believed(1e18, None, 7e10) == 7e10
    assert rates.believed(1e18, 3e9, 7e10) == 3e9


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
