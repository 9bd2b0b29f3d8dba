"""The life of a lease: each state, each event, what becomes of lease and task."""

from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.ids import BlobHash
from gpugoblin.wire.messages.lease import Abandon, Exchange
from gpugoblin.wire.messages.task import BlobRef, Counters, Result
from server_stub.node.state import leases, verdicts
from tests.simulation.world import CAPABILITIES, Device, Shape, World, digest_of, party

__all__: list[str] = []


def result(lease: str, text: str = "x|y", nbytes: int = 8) -> Result:
    return Result(
        lease=lease, outputs=(BlobRef(BlobHash(digest_of(text)), nbytes),),  # type: ignore[arg-type]
        engine_build="b1", driver="cpu", kernel_set="1" * 64, sandbox_level="full",
        counters=Counters(0.1, 100), claim=b"s" * 64,
    )  # fmt: skip


class Bench:
    """One task of one job, and two devices."""

    def __init__(self, world: World, count: int = 1) -> None:
        self.world = world
        self.job = world.submit(Shape(count, 1, "product"))
        world.generate(self.job)
        world.run(5.0)
        self.one, self.two = Device(party(0)), Device(party(1))

    def lease(self, device: Device, want: int = 1) -> str:
        reply = self.world.exchange(device, Exchange(want=want, capabilities=CAPABILITIES))
        assert reply is not None
        return reply.leases[0].lease if reply.leases else ""

    def commit(self, device: Device, lease: str, **kind: Any) -> tuple[bool, str]:
        reply = self.world.exchange(device, Exchange(commits=(result(lease, **kind),)))
        assert reply is not None
        code = reply.refused[0].code if reply.refused else ""
        return lease in reply.uploads, code

    def task(self) -> str:
        return str(self.world.connection.execute("select state from task").fetchone()[0])

    def state(self, lease: str) -> str:
        row = self.world.connection.execute("select state from lease where id = ?", (lease,))
        return str(row.fetchone()[0])

    def expire(self) -> None:
        self.world.now_s += 10_000.0
        self.world.handle(leases.expire)


@pytest.fixture
def bench(world: World) -> Bench:
    return Bench(world)


def test_a_task_is_leased_once(bench: Bench) -> None:
    assert bench.lease(bench.one)
    assert bench.task() == "leased"
    assert bench.lease(bench.two) == ""


def test_a_lease_lasts_a_minute_or_four_times_the_estimate(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    row = leases.load(_tx(bench), lease)
    assert row is not None
    assert row.until_s == pytest.approx(bench.world.now_s + 60.0)


def _tx(bench: Bench) -> Any:
    from server_stub.node.store.sqlite import SqliteTx

    return SqliteTx(bench.world.connection)


def test_commit_then_upload_then_checking(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    assert bench.commit(bench.one, lease) == (True, "")
    assert bench.state(lease) == "committed"
    assert bench.task() == "leased"
    state = bench.world.handle(lambda s: verdicts.uploaded(s, bench.one.party, lease, [False]))
    assert state == ("missing", (0,))
    state = bench.world.handle(lambda s: verdicts.uploaded(s, bench.one.party, lease, [True]))
    assert state == ("checking", ())
    assert bench.task() == "checking"


def test_a_commit_twice_is_one_commit(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    assert bench.commit(bench.one, lease) == (True, "")
    assert bench.commit(bench.one, lease) == (True, "")
    held = bench.world.connection.execute("select refs from blob").fetchall()
    assert (1,) in held
    assert bench.commit(bench.one, lease, text="other") == (False, "already_committed")


def test_another_devices_lease_is_unknown(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    assert bench.commit(bench.two, lease) == (False, "unknown_lease")
    assert bench.commit(bench.two, "lease_nobody") == (False, "unknown_lease")


def test_sizes_that_cannot_be_right_end_the_lease(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    assert bench.commit(bench.one, lease, nbytes=9) == (False, "outputs_mismatch")
    assert bench.state(lease) == "abandoned"
    assert bench.task() == "ready"


def test_expiry_makes_the_task_ready_and_the_lease_can_live_again(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    bench.expire()
    assert (bench.state(lease), bench.task()) == ("expired", "ready")
    assert bench.commit(bench.one, lease) == (True, "")
    assert (bench.state(lease), bench.task()) == ("committed", "leased")


def test_a_result_after_another_has_the_task_is_late(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    bench.expire()
    other = bench.lease(bench.two)
    assert other
    assert bench.commit(bench.one, lease) == (False, "late")
    assert bench.state(lease) == "late"
    assert bench.state(other) == "issued"


def test_giving_back_is_free_of_blame(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    bench.world.exchange(bench.one, Exchange(abandons=(Abandon(lease, "owner"),)))  # type: ignore[arg-type]
    assert (bench.state(lease), bench.task()) == ("abandoned", "ready")
    row = bench.world.connection.execute("select rejected from device").fetchone()
    assert row == (0,)
    assert bench.lease(bench.one), "an owner's pause does not keep the task from the device"


def test_what_does_not_fit_is_not_offered_to_the_same_device_again(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    gives_back = Exchange(abandons=(Abandon(lease, "does_not_fit"),))  # type: ignore[arg-type]
    bench.world.exchange(bench.one, gives_back)
    assert bench.lease(bench.one) == ""
    assert bench.lease(bench.two)


def test_after_eight_attempts_the_validator_computes(bench: Bench) -> None:
    for _ in range(8):
        assert bench.lease(bench.one)
        bench.expire()
    assert bench.task() == "suspect"
    bench.world.run(30.0)
    assert bench.task() == "used"


def test_a_grant_holds_as_many_leases_as_it_says(world: World) -> None:
    bench = Bench(world, count=8)
    world.generate(bench.job)
    world.run(5.0)
    reply = world.exchange(bench.one, Exchange(want=8, capabilities=CAPABILITIES))
    assert reply is not None
    assert len(reply.leases) == bench.one.party.max_leases == 4
    more = world.exchange(bench.one, Exchange(want=8))
    assert more is not None
    assert more.leases == ()


def test_what_is_no_longer_wanted_is_said(bench: Bench) -> None:
    from server_stub.node.state import jobs

    lease = bench.lease(bench.one)
    bench.world.handle(lambda step: jobs.cancel(step, bench.job))
    reply = bench.world.exchange(bench.one, Exchange(holding=(lease,)))  # type: ignore[arg-type]
    assert reply is not None
    assert reply.cancelled == (lease,)
    assert bench.commit(bench.one, lease) == (False, "cancelled")


def test_an_upload_that_never_comes_expires(bench: Bench) -> None:
    lease = bench.lease(bench.one)
    bench.commit(bench.one, lease)
    bench.expire()
    assert (bench.state(lease), bench.task()) == ("expired", "ready")
    assert bench.world.connection.execute("select sum(held) from vote").fetchone() == (None,)
