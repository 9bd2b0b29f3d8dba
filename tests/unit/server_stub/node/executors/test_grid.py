"""What the devices offer together; the dialogue itself is in the executors' conformance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.executors.grid import GridExecutor
from server_stub.node.settings import parse
from server_stub.node.state import links, rates
from server_stub.node.state.words import Rules, Step
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.work import Fold
from tests.helpers.lab import (
    Lab,
    on_grid,
    product,
    row_sums,
    until,
    work_until,
)
from tests.simulation.world import CAPABILITIES, World, party
from tests.unit.server_stub.node.state.test_links import came
from tests.unit.server_stub.node.state.test_rates import verified

__all__: list[str] = []

T = TypeVar("T")


class Host:
    """The node's side, on a simulated world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules: Rules = world.rules
        self.settings = parse({"state_dir": "/x", "grid_slot_bytes": 1 << 26})

    @property
    def store(self) -> Any:
        return self

    async def read(self, body: Callable[[Any], T]) -> T:
        return body(SqliteTx(self.world.connection))

    async def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T:
        return self.world.handle(handler)


def device(world: World, key: str, memory: int, slot: int, seen_s: float) -> None:
    world.connection.execute(
        "insert into device(key, owner, bucket, owner_age_days, seen_s, grant_exp_s,"
        " memory_bytes, max_slot_bytes, flops_per_s, bytes_per_s)"
        " values(?, 'o', 'b', 1, ?, 1e12, ?, ?, 2.0, 3.0)",
        (key, seen_s, memory, slot),
    )


def test_nobody_is_known_yet(world: World) -> None:
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert (fleet.engines, fleet.flops_per_s) == (0, 0.0)
    assert fleet.memory_bytes > 0


def test_plans_are_for_what_most_devices_can_take(world: World) -> None:
    for number, memory in enumerate((1, 2, 3, 4, 5, 6, 7, 8)):
        device(world, f"d{number}", memory << 30, memory << 24, world.now_s)
    device(world, "gone", 1 << 20, 1 << 20, world.now_s - 10_000.0)
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert fleet.engines == 8
    assert fleet.memory_bytes == 3 << 30
    assert fleet.slot_bytes == 3 << 24
    assert (fleet.flops_per_s, fleet.bytes_per_s) == (16.0, 8 * links.ASSUMED.bytes_per_s)


def test_devices_that_lack_a_dtype_do_not_count(world: World) -> None:
    for number, dtypes in enumerate((0b01, 0b11, 0b11)):
        device(world, f"d{number}", 1 << 30, 1 << 24, world.now_s)
        change = "update device set dtypes = ? where key = ?"
        world.connection.execute(change, (dtypes, f"d{number}"))
    executor = GridExecutor(Host(world))
    found = [asyncio.run(executor.capabilities(needs)) for needs in (0, 0b10, 0b100)]
    assert [(fleet.engines, fleet.dtypes) for fleet in found] == [(3, 0b01), (2, 0b11), (0, 0)]


def test_the_word_of_one_device_does_not_steer_an_estimate(world: World) -> None:
    device(world, "boaster", 1 << 30, 1 << 24, world.now_s)
    world.connection.execute("update device set flops_per_s = 1e18, bytes_per_s = 1e18")
    # Of the link nothing is believed: what a device names is its memory's rate.
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert fleet.flops_per_s == rates.CLAIM_FLOPS_PER_S
    assert fleet.bytes_per_s == links.ASSUMED.bytes_per_s
    device(world, "measured", 1 << 30, 1 << 24, world.now_s)
    verified(world, "measured", 10**10, 100.0, 102.0)
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert fleet.flops_per_s == 2 * 5e9
    verified(world, "boaster", 10**10, 100.0, 110.0)
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert fleet.flops_per_s == 6e9


def test_the_links_of_a_fleet_are_those_that_were_measured(world: World) -> None:
    """An estimate over links counted the rate of the devices' memory."""
    for key in ("d", "e"):
        device(world, key, 1 << 30, 1 << 24, world.now_s)
    world.connection.execute("update device set bytes_per_s = 1e12")
    for number in range(links.LEAST_SAMPLES):
        nbytes = 1_000_000 * (1 + number % 2)
        came(world, "d", nbytes, 0.3 + nbytes / 4e6, 100.0 * number)
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert fleet.bytes_per_s == pytest.approx(2 * 4e6)


@pytest.mark.parametrize("honest", [1, 8])
def test_one_device_cannot_make_plans_impossible(world: World, honest: int) -> None:
    for number in range(honest):
        device(world, f"d{number}", 1 << 30, 1 << 24, world.now_s)
    device(world, "no slot", 1 << 40, 1, world.now_s)
    device(world, "no memory", 1, 1 << 40, world.now_s)
    fleet = asyncio.run(GridExecutor(Host(world)).capabilities())
    assert (fleet.engines, fleet.memory_bytes, fleet.slot_bytes) == (honest, 1 << 30, 1 << 24)


def test_idle_questions_are_held_until_there_is_work(world: World) -> None:
    async def play() -> None:
        grid = GridExecutor(Host(world))
        assert not await grid.wait_for_work(0.01)
        waiting = asyncio.create_task(grid.wait_for_work(20.0))
        await asyncio.sleep(0)
        grid.submit("job")
        assert await waiting
        held = asyncio.create_task(grid.wait_for_work(20.0))
        await asyncio.sleep(0)
        grid.stop()
        assert await held

    asyncio.run(play())


def test_devices_compute_a_product_over_tls(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as one, grid.device() as two:
        job = work_until(grid, job, [one, two])
    assert job.state == "done"
    assert job.tasks > 1
    assert job.verified_by.product == job.tasks
    np.testing.assert_allclose(grid.result(job.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)
    assert job.credits > 0
    receipts = grid.node.read("select count(*) from outbox")
    assert receipts == [(job.tasks,)]
    until(lambda: grid.node.read("select count(*) from blob where refs > 0") == [(0,)])
    store = grid.node.workers.store
    until(lambda: not list(store.names()))


def test_a_liar_is_caught_by_the_validator_and_the_result_is_right(grid: Lab) -> None:
    a, b, graph = product(1500, 64, 600)
    job = on_grid(grid, graph, grid.file(a, "a.npy"), grid.file(b, "b.npy"))
    with grid.device() as honest, grid.device() as liar:
        liar.spoil = lambda arrays: [array + np.float32(0.5) for array in arrays]
        job = work_until(grid, job, [liar, honest])
        key = liar.grant.device_key
    assert job.state == "done"
    assert job.lost.rejected >= 1
    np.testing.assert_allclose(grid.result(job.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)
    paid = grid.node.read(
        "select count(*) from outbox o join lease l on l.id = o.lease where l.device like ?",
        f"{key}%",
    )
    assert paid == [(0,)]


def test_fold_items_reach_the_workers_after_an_agreement(grid: Lab) -> None:
    """Trusted devices of independent owners verify each other; the lab only folds."""
    grid.node.node.rules = Rules(
        catalog_hash=grid.node.node.rules.catalog_hash, vote_after_s=(0.0, 0.0),
        audit_fraction=0.0,
    )  # fmt: skip
    values = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    with grid.device() as one, grid.device() as two:
        for device in (one, two):
            device.exchange()

        async def trust_both() -> None:
            await grid.node.node.store.write(
                lambda tx: tx.change("update device set passed = 10, proven = 1 << 40")
            )

        grid.node.call(trust_both())
        job = on_grid(grid, row_sums((1000, 4)), grid.file(values, "v.npy"))
        job = work_until(grid, job, [one, two])
    assert job.state == "done"
    assert job.verified_by.equality + job.verified_by.agreement == job.tasks
    assert Fold.__name__ in grid.node.workers.done
    np.testing.assert_allclose(grid.result(job.outputs[0]), values.sum(1))


class SlowHost(Host):
    """Its transactions take a turn of the loop, and those of more than one request may fail."""

    def __init__(self, world: World, error: Exception | None = None) -> None:
        super().__init__(world)
        self.error = error
        self.sizes: list[int] = []

    async def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T:
        await asyncio.sleep(0)
        found = self.world.handle(handler)
        replies: Any = found
        self.sizes.append(len(replies))
        if self.error is not None and len(replies) > 1:
            raise self.error
        return found


def asks(grid: GridExecutor, count: int) -> list[Any]:
    message = Exchange(capabilities=CAPABILITIES)
    return [grid.exchange(party(number), message) for number in range(count)]


def test_requests_that_come_together_share_a_transaction(world: World) -> None:
    async def play() -> None:
        host = SlowHost(world)
        grid = GridExecutor(host)
        replies = await asyncio.gather(*asks(grid, 5))
        assert host.sizes == [5]
        assert None not in replies

    asyncio.run(play())


def test_requests_that_ask_for_nothing_share_in_bounded_groups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server_stub.node.executors.grid.MOST_AT_ONCE", 2)

    async def play() -> None:
        host = SlowHost(world)
        grid = GridExecutor(host)
        message = Exchange(capabilities=CAPABILITIES, want=0)
        some = [grid.exchange(party(number), message) for number in range(5)]
        assert None not in await asyncio.gather(*some)
        assert host.sizes == [2, 2, 1]

    asyncio.run(play())


def test_a_fault_of_one_request_is_not_the_others(world: World) -> None:
    async def play(error: Exception) -> tuple[list[int], list[Any]]:
        host = SlowHost(world, error)
        asked = asks(GridExecutor(host), 3)
        return host.sizes, await asyncio.gather(*asked, return_exceptions=True)

    sizes, replies = asyncio.run(play(ValueError("a fault")))
    assert sizes == [3, 1, 1, 1]
    assert not any(isinstance(reply, Exception) for reply in replies)
    full = NodeError("database_failed", reason="full")
    sizes, replies = asyncio.run(play(full))
    assert (sizes, replies) == ([3], [full] * 3)


def test_a_request_whose_device_has_gone_holds_up_nobody(world: World) -> None:
    async def play() -> None:
        grid = GridExecutor(SlowHost(world))
        first, second = (asyncio.ensure_future(each) for each in asks(grid, 2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is not None

    asyncio.run(play())
