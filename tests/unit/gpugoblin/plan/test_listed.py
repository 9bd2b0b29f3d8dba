"""Plans of tasks that are written one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.grids import Grid
from gpugoblin.plan.listed import Draft, ListedPlan, TaskWriter, pruned
from gpugoblin.plan.spans import make_loop
from gpugoblin.plan.spec import Limits, OutputPlace, Region
from tests.helpers.plans import require_rules, run_plan

SPEC = TensorSpec("float32", (10, 6))


def twice() -> Graph:
    """tanh(tanh(x))."""
    build = GraphBuilder()
    x = build.input(SPEC)
    for _ in range(2):
        x = build.add("formula", [x], tree=call_formula("tanh"))
    return build.build([x])


def written() -> ListedPlan:
    """The first step in blocks of rows, the second in blocks of columns: boxes across blocks."""
    writer = TaskWriter(Limits(2000))
    rows = Grid(SPEC, (make_loop(10, 4), make_loop(6, 6)), array=0)
    parts = {}
    for place in rows.places():
        draft, box = Draft(), rows.box(place)
        made = draft.build.add("formula", [draft.block(rows, place)], tree=call_formula("tanh"))
        region = Region(tuple(a for a, _ in box), tuple(b for _, b in box))
        parts[place] = writer.write(draft, [made], [OutputPlace(None, region)])[0]
    half = Grid(SPEC, rows.loops, parts=parts)
    for start in (0, 3):
        draft = Draft()
        value = draft.box(half, ((0, 10), (start, start + 3)))
        made = draft.build.add("formula", [value], tree=call_formula("tanh"))
        region = Region((0, start), (10, start + 3))
        writer.write(draft, [made], [OutputPlace(0, region)])
    return ListedPlan(twice(), "listed", writer.tasks, (10, 3))


def test_a_plan_is_what_was_written() -> None:
    plan = written()
    require_rules(plan, Limits(2000))
    array = np.random.default_rng(0).standard_normal(SPEC.shape).astype(np.float32)
    (found,) = run_plan(plan, [array])
    np.testing.assert_allclose(found, np.tanh(np.tanh(array)), rtol=1e-6)
    assert plan.consumers(0) == (3, 4)
    assert plan.summary().kind == "listed"
    with pytest.raises(PlanError):
        plan.task(5)


def test_a_block_that_is_read_twice_is_one_input() -> None:
    draft = Draft()
    grid = Grid(SPEC, (make_loop(10, 5), make_loop(6, 6)), array=0)
    assert draft.block(grid, (0, 0)) == draft.block(grid, (0, 0))
    assert len(draft.sources) == 1
    assert draft.whole(grid) != draft.block(grid, (0, 0))


def test_a_task_over_the_limit_is_refused() -> None:
    writer = TaskWriter(Limits(300))
    draft = Draft()
    value = draft.whole(Grid(SPEC, (make_loop(10, 10), make_loop(6, 6)), array=0))
    made = draft.build.add("formula", [value], tree=call_formula("tanh"))
    with pytest.raises(PlanError) as caught:
        writer.write(draft, [made], [OutputPlace(0, Region((0, 0), (10, 6)))])
    assert caught.value.code == "plan_does_not_fit"
    assert not writer.tasks


def test_what_leads_nowhere_is_left_out() -> None:
    tasks = list(written().tasks)
    tasks[4] = replace(tasks[4], outputs=(OutputPlace(None, tasks[4].outputs[0].region),))
    tasks[3] = replace(tasks[3], inputs=tasks[3].inputs[1:], depends_on=tasks[3].depends_on[1:])
    kept = pruned(tasks)
    assert [task.index for task in kept] == [0, 1, 2]
    assert kept[2].depends_on == (0, 1)
    assert [task.graph for task in kept] == [tasks[n].graph for n in (1, 2, 3)]
