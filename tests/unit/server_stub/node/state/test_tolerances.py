"""What was measured of a job's graphs."""

from __future__ import annotations

from server_stub.node.state import jobs, tolerances
from tests.simulation.world import Shape, World

__all__: list[str] = []

GRAPH = "0" * 63 + "1"


def test_kept_widened_shown_and_forgotten(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))
    assert world.handle(lambda step: tolerances.load(step.tx, job, GRAPH)) == ()
    world.handle(lambda step: tolerances.note(step, job, GRAPH, ()))
    assert world.handle(lambda step: jobs.info(step.tx, job)).tolerances == ()
    world.handle(lambda step: tolerances.note(step, job, GRAPH, ((1e-6, 3e-6), (), (2e-6,))))
    world.handle(lambda step: tolerances.note(step, job, GRAPH, ((4e-6, 1e-6), (), (2e-6,))))
    known = world.handle(lambda step: tolerances.load(step.tx, job, GRAPH))
    assert known == ((4e-6, 3e-6), (), (2e-6,))
    (line,) = world.handle(lambda step: jobs.info(step.tx, job)).tolerances
    assert (line.graph, line.middle, line.largest) == (GRAPH, 3e-6, 4e-6)
    world.handle(lambda step: jobs.delete(step, job))
    assert world.handle(lambda step: tolerances.shown(step.tx, job)) == ()


def test_a_graph_without_floats_has_no_line(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))
    world.handle(lambda step: tolerances.note(step, job, GRAPH, ((),)))
    assert world.handle(lambda step: tolerances.shown(step.tx, job)) == ()
