"""What leases show about links: bytes and seconds, by the lab's clock."""

from __future__ import annotations

import pytest

from server_stub.node.state import links
from server_stub.node.state.links import LEAST_SAMPLES, Link, line, measured
from server_stub.node.state.rates import CLAIM_BYTES_PER_S
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import World


def came(
    world: World, device: str, nbytes: int, way_s: float, issued_s: float,
    compute_s: float = 2.0, state: str = "accepted", flops: int = 10**9,
) -> None:  # fmt: skip
    """A task that came from a device after `compute_s` + `way_s`."""
    change = world.connection.execute
    (number,) = change("select count(*) from task").fetchone()
    change(
        "insert into task(id, public, job, number, state, executor, prio, affinity, graph, verify,"
        " verify_flops, flops, bytes_moved, memory_bound_bytes, min_memory_bytes, min_sandbox,"
        " slot_bytes, waits, consumers_left, since_s) values(?, 't', 'j', ?, 'used', 'grid', 0, 0,"
        " 'g', 'recompute', 0, ?, ?, 0, 0, 0, 0, 0, 0, 0)",
        (number + 1, number, flops, nbytes),
    )
    change(
        "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state, issued_s,"
        " until_s, committed_s, uploaded_s, compute_s)"
        " values(?, ?, 'j', 'first', ?, 'o', 'b', ?, ?,"
        " ?, 0, ?, ?, ?)",
        (
            f"lease_{number}", number + 1, device, "" if device == "local" else "g", state,
            issued_s, issued_s + compute_s, issued_s + compute_s + way_s, compute_s,
        ),
    )  # fmt: skip


def test_latency_and_rate_are_told_apart(world: World) -> None:
    tx = SqliteTx(world.connection)
    assert measured(tx) is None
    for number in range(6):
        nbytes = 1_000_000 * (1 + number % 3)
        came(world, "d", nbytes, 0.3 + nbytes / 4e6, 100.0 * number)
        came(world, "liar", nbytes, 0.0, 100.0 * number, state="rejected")
        came(world, "local", nbytes, 0.0, 100.0 * number)
    found = measured(tx)
    assert found is not None
    assert found.devices == 1
    assert found.latency_s == pytest.approx(0.3)
    assert found.bytes_per_s == pytest.approx(4e6)
    assert found.flops_per_s == pytest.approx(5e8)


def test_the_middle_device_counts_and_new_ones_do_not(world: World) -> None:
    for device, rate in (("slow", 1e5), ("middle", 1e6), ("fast", 1e7)):
        for number in range(LEAST_SAMPLES):
            nbytes = 1_000_000 * (1 + number % 2)
            came(world, device, nbytes, nbytes / rate, 1000.0 * number)
    for number in range(LEAST_SAMPLES - 1):
        came(world, "new", 1_000_000, 500.0, 10_000.0 * number)
    found = measured(SqliteTx(world.connection))
    assert found == Link(3, pytest.approx(0.0, abs=1e-9), pytest.approx(1e6), pytest.approx(5e8))


def test_a_device_that_has_several_leases_is_not_slow_for_that(world: World) -> None:
    """Each waits for the one before it; that is no time of its way."""
    for number in range(4):
        came(world, "queue", 1_000_000, 1.0 + 3.0 * number, 0.0)
    found = measured(SqliteTx(world.connection))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(1e6)


def test_small_tasks_do_not_say_how_fast_a_device_computes(world: World) -> None:
    tx = SqliteTx(world.connection)
    for number in range(LEAST_SAMPLES):
        came(world, "d", 1000, 0.3, 10.0 * number, compute_s=0.05, flops=100)
    found = measured(tx)
    assert found is not None
    assert (found.devices, found.flops_per_s) == (1, 0.0)
    for number in range(LEAST_SAMPLES):
        came(world, "d", 1000, 0.3, 100.0 + 10.0 * number)
    found = measured(tx)
    assert found is not None
    assert found.flops_per_s == pytest.approx(5e8)


def test_lines_at_their_edges() -> None:
    assert line([(10**6, 2.0)] * 4) == (0.0, 5e5)
    assert line([(10**6, 0.5), (2 * 10**6, 0.5), (3 * 10**6, 0.5)]) == (0.5, CLAIM_BYTES_PER_S)
    assert line([(0, 0.5)] * 4)[1] == links.LEAST_BYTES_PER_S
    odd = [(n * 10**6, 0.1 + n) for n in range(1, 9)] + [(10**6, 90.0)]
    assert line(odd) == (pytest.approx(0.1), pytest.approx(1e6))
