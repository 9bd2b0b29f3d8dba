"""Which method verifies what, and what each answer of the workers means."""

from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.state import tasks, verdicts
from server_stub.node.work import Checked
from tests.simulation.invariants import check
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party, trusted
from tests.unit.server_stub.node.state.test_leases import result

__all__: list[str] = []


def one_task(world: World, verify: str, **job: Any) -> str:
    name = world.submit(Shape(1, 1, verify), **job)
    world.generate(name)
    world.run(5.0)
    return name


def row(world: World, statement: str) -> Any:
    return world.connection.execute(statement).fetchone()


def deliver(world: World, device: Device, lies: float = 0.0) -> None:
    """The device takes the task, computes, commits and uploads."""
    device.lies, device.slow_s = lies, 0.1
    world.device_turn(device, want=1)


def quiet(world: World, seconds: float = 20.0) -> None:
    world.run(seconds, lambda: check(world))


def test_a_product_is_checked_and_used(world: World) -> None:
    one_task(world, "product")
    deliver(world, Device(party(0)))
    quiet(world)
    assert row(world, "select state, verified_by from task") == ("used", "product")
    assert row(world, "select passed, rejected from device") == (1, 0)
    assert row(world, "select count(*) from outbox") == (1,)


def test_a_wrong_product_is_the_validators_and_only_then_counts(world: World) -> None:
    one_task(world, "product")
    deliver(world, Device(party(0)), lies=1.0)
    quiet(world)
    assert row(world, "select state, verified_by, winner from task") == (
        "used", "recompute", "validator",
    )  # fmt: skip
    assert row(world, "select passed, rejected from device") == (0, 1)
    assert row(world, "select state from lease") == ("rejected",)
    assert row(world, "select count(*) from outbox") == (0,)


def test_a_new_device_is_recomputed(world: World) -> None:
    one_task(world, "recompute")
    deliver(world, Device(party(0)))
    quiet(world)
    assert row(world, "select state, verified_by from task") == ("used", "recompute")
    assert row(world, "select passed from device") == (1,)


@pytest.mark.parametrize(
    ("owner", "age_days", "expected"),
    [(1, 30, "agreement"), (0, 30, "recompute"), (1, 3, "recompute")],
    ids=["independent", "the same owner", "an owner too young"],
)
def test_who_may_give_the_second_opinion(owner: int, age_days: int, expected: str) -> None:
    from server_stub.node.state.words import Rules
    from tests.simulation.world import CATALOG

    world = World(3, rules=Rules(CATALOG, audit_fraction=0.0))
    first, second = Device(party(0)), Device(party(1, owner=owner, age_days=age_days))
    trusted(world, first)
    trusted(world, second)
    one_task(world, "recompute")
    deliver(world, first)
    world.later(3.0, lambda: deliver(world, second))
    quiet(world, 300.0)
    assert row(world, "select state, verified_by from task") == ("used", expected)
    world.close()


def test_part_of_the_agreed_is_recomputed_all_the_same() -> None:
    from server_stub.node.state.words import Rules
    from tests.simulation.world import CATALOG

    world = World(3, rules=Rules(CATALOG, audit_fraction=1.0))
    first, second = Device(party(0)), Device(party(1))
    trusted(world, first)
    trusted(world, second)
    one_task(world, "recompute")
    deliver(world, first)
    world.later(3.0, lambda: deliver(world, second))
    quiet(world, 300.0)
    assert row(world, "select state, verified_by from task") == ("used", "recompute")
    states = world.connection.execute("select state from lease").fetchall()
    assert states == [("accepted",), ("accepted",)]
    world.close()


def test_a_disagreement_punishes_only_who_is_wrong() -> None:
    from server_stub.node.state.words import Rules
    from tests.simulation.world import CATALOG

    world = World(3, rules=Rules(CATALOG, audit_fraction=0.0))
    honest, liar = Device(party(0)), Device(party(1))
    trusted(world, honest)
    trusted(world, liar)
    one_task(world, "recompute")
    deliver(world, liar, lies=1.0)
    world.later(3.0, lambda: deliver(world, honest))
    quiet(world, 300.0)
    assert row(world, "select state, winner from task") == ("used", "validator")
    found = dict(world.connection.execute("select key, rejected from device").fetchall())
    assert found == {honest.party.device: 0, liar.party.device: 1}
    assert row(world, "select count(*) from outbox") == (1,)
    world.close()


def test_equal_hashes_verify_in_the_exact_class() -> None:
    from server_stub.node.state.words import Rules
    from tests.simulation.world import CATALOG

    world = World(3, rules=Rules(CATALOG, audit_fraction=0.0))
    first, second = Device(party(0)), Device(party(1))
    trusted(world, first)
    trusted(world, second)
    one_task(world, "recompute", numeric_class="exact")
    lease = _lease(world, first)
    _result(world, first, lease, "same")
    world.run(60.0)
    vote = _lease(world, second)
    role = world.connection.execute("select role from lease where id = ?", (vote,)).fetchone()
    assert role == ("vote",)
    _result(world, second, vote, "same")
    assert row(world, "select state, verified_by from task") == ("verified", "equality")
    world.close()


def _lease(world: World, device: Device) -> str:
    reply = world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
    assert reply is not None
    return str(reply.leases[0].lease)


def _result(world: World, device: Device, lease: str, text: str) -> None:
    world.store(text)
    world.exchange(device, Exchange(commits=(result(lease, text),)))
    world.handle(lambda step: verdicts.uploaded(step, device.party, lease, [True]))


@pytest.mark.parametrize("purpose", ["recomputed", "judged"])
def test_an_open_result_is_credited_and_not_used(world: World, purpose: str) -> None:
    """Nothing tells who is right: the validator's bytes are used, and nobody is blamed."""
    one_task(world, "recompute")
    device = Device(party(0))
    lease = _lease(world, device)
    _result(world, device, lease, "theirs")
    task = row(world, "select id from task")[0]
    reply = Checked("w", False, "result_open", 0.5, 1.0, ("c" * 64,), "build-validator")
    if purpose == "judged":
        world.handle(lambda step: verdicts.judged(step, task, lease, reply))
    world.handle(lambda step: verdicts.recomputed(step, task, lease, reply))
    assert row(world, "select state, winner from task") == ("used", "validator")
    assert row(world, "select blob from fold") == ("c" * 64,)
    assert row(world, "select state from lease") == ("accepted",)
    assert row(world, "select passed, rejected from device") == (0, 0)
    assert row(world, "select count(*) from outbox") == (1,)


def test_three_rejections_end_in_quarantine(world: World) -> None:
    job = world.submit(Shape(6, 1, "product"))
    world.every(1.0, world.tick)
    liar = Device(party(0), lies=1.0, slow_s=0.1)
    world.device_turn(liar, want=1)
    world.run(200.0, lambda: check(world))
    until_s = row(world, "select quarantined_until_s from device")[0]
    assert until_s > world.now_s
    rejected = row(world, "select count(*) from lease where state = 'rejected'")[0]
    assert 3 <= rejected < 6, "what was under way is still judged, nothing new is leased"
    assert world.state_of(job) == "running"


def test_a_stale_answer_changes_nothing(world: World) -> None:
    one_task(world, "product")
    device = Device(party(0))
    lease = _lease(world, device)
    good = Checked("w", True, "", 0.0, 1.0)
    world.handle(lambda step: verdicts.checked(step, 1, lease, good))
    assert row(world, "select state from task") == ("leased",)
    world.handle(lambda step: verdicts.checked(step, 99, lease, good))
    world.handle(lambda step: verdicts.recomputed(step, 1, "", good))
    assert row(world, "select state from task") == ("leased",)


def test_a_failed_check_ends_the_job_with_its_cause(world: World) -> None:
    job = one_task(world, "product")
    world.handle(
        lambda step: verdicts.work_failed(step, "check", 1, "", "array_truncated", "the text")
    )
    found = row(world, "select state, error_code, error_text from job")
    assert found == ("failed", "array_truncated", "the text")
    assert world.state_of(job) == "failed"
    check(world)


def test_bytes_lost_on_the_own_disk_blame_nobody(world: World) -> None:
    one_task(world, "product")
    device = Device(party(0))
    lease = _lease(world, device)
    _result(world, device, lease, "lost")
    world.handle(lambda step: verdicts.work_failed(step, "check", 1, lease, "blob_damaged", "x"))
    assert row(world, "select state, attempt from task") == ("ready", 1)
    assert row(world, "select rejected from device") == (0,)
    check(world)


@pytest.mark.parametrize("code", ["blob_damaged", "disk_failed"])
def test_a_result_that_cannot_be_judged_ends_and_lets_go(world: World, code: str) -> None:
    """Another result was wrong and the task is decided; this one's bytes are lost on our disk."""
    one_task(world, "recompute")
    device = Device(party(0))
    lease = _lease(world, device)
    _result(world, device, lease, "theirs")
    task = row(world, "select id from task")[0]
    own = Checked("w", False, "differs", 0.5, 1.0, ("c" * 64,), "build-validator")
    world.handle(lambda step: verdicts.recomputed(step, task, "", own))
    assert row(world, "select state from task") == ("used",)
    assert row(world, "select state from lease") == ("uploaded",)
    world.handle(lambda step: verdicts.work_failed(step, "judge", task, lease, code, "x"))
    assert row(world, "select state, cause from lease") == ("cancelled", code)
    assert row(world, "select count(*) from vote where held = 1") == (0,)
    assert row(world, "select count(*) from blob where refs > 0") == (0,)
    assert row(world, "select passed, rejected from device") == (0, 0)


def test_a_task_that_nobody_takes_again_is_the_validators(world: World) -> None:
    one_task(world, "product")
    world.connection.execute("update task set attempt = 1")
    world.now_s += 10_000.0
    world.handle(verdicts.stuck)
    world.run(20.0)
    assert row(world, "select state, winner from task") == ("used", "validator")


def test_a_tasks_inputs_are_verified_when_their_producers_are(world: World) -> None:
    from server_stub.node.store.sqlite import SqliteTx

    job = world.submit(Shape(1, 2, "recompute"), speculative=1)
    world.generate(job)
    world.run(5.0)
    assert tasks.inputs_verified(SqliteTx(world.connection), 1)
    assert not tasks.inputs_verified(SqliteTx(world.connection), 2)
