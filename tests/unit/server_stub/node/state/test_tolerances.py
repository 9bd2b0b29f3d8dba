"""What was measured of a job's graphs."""

from __future__ import annotations

from gpugoblin.verify.spread import Tolerance
from server_stub.node.state import jobs, tolerances
from server_stub.node.state.tolerances import CHOSEN, KEPT, is_chosen
from tests.simulation.world import Shape, World

__all__: list[str] = []

GRAPH = "0" * 63 + "1"


def note(world: World, job: str, number: int, measured: Tolerance) -> Tolerance:
    """What is known after a measurement at a task."""
    world.handle(lambda step: tolerances.note(step, job, GRAPH, number, measured))
    return world.handle(lambda step: tolerances.load(step.tx, job, GRAPH))


def test_kept_shown_and_forgotten(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))
    assert note(world, job, 0, ()) == ()
    assert world.handle(lambda step: jobs.info(step.tx, job)).tolerances == ()
    assert note(world, job, 1, ((4e-6, 3e-6), (), (2e-6,))) == ((4e-6, 3e-6), (), (2e-6,))
    (line,) = world.handle(lambda step: jobs.info(step.tx, job)).tolerances
    assert (line.graph, line.middle, line.largest) == (GRAPH, 3e-6, 4e-6)
    world.handle(lambda step: jobs.delete(step, job))
    assert world.handle(lambda step: tolerances.shown(step.tx, job)) == ()


def test_disputes_widen_nothing_for_others(world: World) -> None:
    """A device that disputes the tasks whose inputs lie near an edge has only these measured."""
    job = world.submit(Shape(1, 1, "recompute"))
    numbers = range(100 * CHOSEN)
    chosen = [number for number in numbers if is_chosen(job, number)]
    others = [number for number in numbers if not is_chosen(job, number)]
    assert 70 < len(chosen) < 130
    first: Tolerance = ((1e-6, 3e-6), (), (2e-6,))
    assert note(world, job, others[0], first) == first
    for number in others[1:40]:
        assert note(world, job, number, ((2e-3, 2e-3), (), (2e-3,))) == first
    # One odd task among those that the lab has chosen is not the rule either.
    assert note(world, job, chosen[0], ((2e-3, 2e-3), (), (2e-3,))) == first
    # Gradients shrink, their rounding does not: what was measured first is forgotten.
    for number in chosen[1 : 1 + KEPT]:
        found = note(world, job, number, ((5e-5, 1e-6), (), (number * 1e-9,)))
    assert found[:2] == ((5e-5, 1e-6), ())
    assert found[2] == (sorted(chosen[1 : 1 + KEPT])[KEPT // 2] * 1e-9,)
    # At a chosen task the judge is told nothing, so that it measures.
    for number, told in ((others[0], found), (chosen[0], ())):
        known = world.handle(
            lambda step, at=number: tolerances.for_judging(step.tx, job, GRAPH, at)  # type: ignore[misc] # bound now
        )
        assert known == told


def test_a_graph_without_floats_has_no_line(world: World) -> None:
    job = world.submit(Shape(1, 1, "recompute"))
    note(world, job, 0, ((),))
    assert world.handle(lambda step: tolerances.shown(step.tx, job)) == ()
