"""What is kept of signed errors, and what follows from it."""

from __future__ import annotations

from gpugoblin.verify.bias import DIRECTIONS, FEWEST
from server_stub.node.state import biases, jobs, leases, tasks, tolerances, verdicts
from server_stub.node.state.words import RunWork
from server_stub.node.work import Checked
from tests.simulation.cast import Device, party
from tests.simulation.world import Shape, World, trusted

__all__: list[str] = []

GRAPH = "0" * 63 + "1"
STRAIGHT = (0.5,) * DIRECTIONS


def said(signed: tuple[float, ...] = (), *, error: float = 0.1, accepted: bool = True) -> Checked:
    return Checked("w", accepted, "", error, 1.0, signed=signed)


def note(world: World, job: str, device: str, reply: Checked) -> None:
    world.handle(lambda step: biases.note(step, job, GRAPH, device, reply))


def test_the_secret_is_drawn_once_and_told_to_judges_only(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))
    world.tick()
    world.run(5.0)
    device = Device(party(0))
    world.device_turn(device, 1)
    world.run(0.5)
    lease = world.connection.execute("select id from lease").fetchone()[0]

    def told() -> tuple[str, tuple[float, ...]]:
        return world.handle(lambda step: biases.for_judging(step.tx, job, GRAPH, lease))

    note(world, job, "d", said(error=0.0))
    note(world, job, "d", said(accepted=False))
    assert told() == ("", ())
    note(world, job, "d", said())
    secret, known = told()
    assert (len(secret), known) == (64, ())
    note(world, job, "d", said())
    note(world, job, device.party.device, said(STRAIGHT))
    assert told() == (secret, (1.0, 1.0, *STRAIGHT))
    assert world.handle(lambda step: biases.for_judging(step.tx, job, GRAPH, "none")) == ("", ())
    world.handle(lambda step: jobs.delete(step, job))
    assert told() == ("", ())


def test_one_direction_is_seen_after_some_results_and_shown(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))

    def errs(device: str) -> bool:
        return world.handle(lambda step: biases.errs(step.tx, job, GRAPH, device))

    world.handle(lambda step: tolerances.note(step, job, GRAPH, 1, ((1e-5,),)))
    for number in range(FEWEST):
        assert not errs("straight")
        note(world, job, "straight", said(STRAIGHT))
        sign = 1 if number % 2 else -1
        note(world, job, "honest", said(tuple(sign * one for one in STRAIGHT)))
    assert errs("straight")
    assert not errs("honest")
    (line,) = world.handle(lambda step: jobs.info(step.tx, job)).tolerances
    assert abs(line.signed - 0.5) < 1e-9


def test_its_results_are_credited_and_not_used(world: World) -> None:
    """And no second opinion is asked for about them: the validator computes."""
    device, other = Device(party(0)), Device(party(1))
    for one in (device, other):
        trusted(world, one)
    job = world.submit(Shape(1, 1, "recompute"), name="new")
    world.tick()
    world.run(5.0)
    row = world.connection.execute("select id, graph from task where job = ?", (job,)).fetchone()
    for _ in range(FEWEST):
        reply = said(STRAIGHT)
        world.handle(lambda step: biases.note(step, job, row[1], device.party.device, reply))  # noqa: B023 - at once
    work: list[RunWork] = []
    carry_out = world._carry_out

    def watched(effect: object) -> None:
        if isinstance(effect, RunWork):
            work.append(effect)
            return
        carry_out(effect)  # type: ignore[arg-type] # an effect

    world._carry_out = watched  # type: ignore[method-assign] # the workers do nothing by themselves
    world.device_turn(device, 1)
    world.run(30.0, over=lambda: bool(work))
    assert work[0].purpose == "recompute"
    own = world.store("own|validator")
    reply = Checked("w", False, "result_biased", 0.1, 1.0, (own,), signed=STRAIGHT)
    world.handle(lambda step: verdicts.recomputed(step, row[0], work[0].lease, reply))
    lease = world.handle(lambda step: leases.load(step.tx, work[0].lease))
    task = world.handle(lambda step: tasks.load(step.tx, row[0]))
    assert lease is not None
    assert task is not None
    assert (lease.state, task.state, task.winner) == ("accepted", "used", "validator")
    (lost,) = world.connection.execute("select lost_rejected from job").fetchone()
    assert lost == 0
