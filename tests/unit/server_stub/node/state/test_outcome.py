"""Used once, and the cascade that takes back what was built on a wrong result."""

from __future__ import annotations

from typing import Any

from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.state import outcome, tasks, verdicts
from server_stub.node.state.words import Step
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.work import Checked
from tests.simulation.invariants import check, honest_result
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party
from tests.unit.server_stub.node.state.test_leases import result

__all__: list[str] = []


def states(world: World) -> dict[int, str]:
    return dict(world.connection.execute("select number, state from task").fetchall())


def give(world: World, device: Device, text: str) -> tuple[int, str]:
    """The device takes the next task and returns `text`; returns (task number, lease)."""
    reply = world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
    assert reply is not None
    lease = reply.leases[0]
    world.store(text)
    world.exchange(device, Exchange(commits=(result(lease.lease, text),)))
    world.handle(lambda step: verdicts.uploaded(step, device.party, lease.lease, [True]))
    number = world.connection.execute(
        "select number from task where public = ?", (lease.task.task,)
    ).fetchone()[0]
    return number, lease.lease


def chain(world: World, depth: int, speculative: int) -> str:
    """A chain of tasks whose packed inputs are there; the workers do nothing from now on."""
    job = world.submit(Shape(1, depth, "recompute"), speculative=speculative)
    world.generate(job)
    world.run(5.0)
    world.under_way = _Everything()  # type: ignore[assignment]
    return job


class _Everything(set[Any]):
    """Every item is under way already, so none is begun."""

    def __contains__(self, item: object) -> bool:
        return True


def test_depth_zero_never_runs_ahead(world: World) -> None:
    chain(world, 3, 0)
    give(world, Device(party(0)), "a|x")
    assert states(world) == {0: "checking", 1: "waiting", 2: "waiting"}
    check(world)


def test_depth_one_runs_one_ahead(world: World) -> None:
    chain(world, 3, 1)
    device = Device(party(0))
    give(world, device, "a|x")
    assert states(world) == {0: "checking", 1: "ready", 2: "waiting"}
    give(world, device, "b|x")
    assert states(world) == {0: "checking", 1: "checking", 2: "waiting"}
    check(world)


def test_a_rejection_takes_back_everything_downstream_in_one_transaction(world: World) -> None:
    job = chain(world, 4, 3)
    device = Device(party(0))
    lease = give(world, device, "a|x")[1]
    give(world, device, "b|x")
    give(world, device, "c|x")
    reply = world.exchange(device, Exchange(want=1))
    assert reply is not None
    running = reply.leases[0].lease
    assert states(world) == {0: "checking", 1: "checking", 2: "checking", 3: "leased"}
    seen: list[dict[int, str]] = []

    def reject(step: Step) -> None:
        own = world.store(f"{honest_result(world, job, 0)}|validator")
        refusal = Checked("w", False, "recompute_differs", 0.0, 1.0, (own,), "validator")
        verdicts.recomputed(step, 1, lease, refusal)
        seen.append(dict(step.tx.rows("select number, state from task")))  # type: ignore[arg-type]

    world.handle(reject)
    # At the end of that very transaction the first is right and the second starts anew.
    assert seen == [{0: "used", 1: "ready", 2: "waiting", 3: "waiting"}]
    assert running in world.stopped
    ended = dict(world.connection.execute("select id, state from lease").fetchall())
    assert ended[lease] == "rejected"
    assert [state for name, state in ended.items() if name != lease] == ["cancelled"] * 3
    rejected = world.connection.execute("select rejected from device").fetchone()
    assert rejected == (1,), "whoever computed from a wrong input is not to blame"
    check(world)


def test_a_right_result_lets_its_consumers_be_judged(world: World) -> None:
    chain(world, 2, 1)
    device = Device(party(0))
    lease = give(world, device, "a|x")[1]
    second = give(world, device, "b|x")[1]
    good = Checked("w", True, "", 0.0, 1.0)
    effects: list[Any] = []

    def accept(step: Step) -> None:
        verdicts.recomputed(step, 1, lease, good)
        effects.extend(step.effects)

    world.handle(accept)
    assert states(world) == {0: "used", 1: "checking"}
    assert any(getattr(e, "lease", "") == second for e in effects)


def test_used_is_reached_once(world: World) -> None:
    chain(world, 1, 0)
    lease = give(world, Device(party(0)), "a|x")[1]
    good = Checked("w", True, "", 0.0, 1.0)
    for _ in range(3):
        world.handle(lambda step: verdicts.recomputed(step, 1, lease, good))
    task = tasks.load(SqliteTx(world.connection), 1)
    assert task is not None
    assert world.handle(lambda step: outcome.use(step, task)) is False
    assert world.connection.execute("select used, verified from job").fetchone() == (1, 1)
    assert world.connection.execute("select count(*) from fold").fetchone() == (1,)
    assert world.connection.execute("select count(*) from outbox").fetchone() == (1,)


def test_intermediates_go_when_their_last_consumer_is_used(world: World) -> None:
    job = world.submit(Shape(2, 2, "recompute", fan=2))
    world.every(1.0, world.tick)
    device = Device(party(0), slow_s=0.2)
    world.device_turn(device)
    world.run(400.0, lambda: check(world), lambda: world.state_of(job) == "done")
    world.run(5.0)
    kept = world.connection.execute("select count(*) from blob where refs > 0").fetchone()
    assert kept == (0,)
    assert world.files == {}
