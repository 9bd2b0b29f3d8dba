from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.body_samples import apply_formula, body, one_formula
from gpugoblin.catalog.ops.repeating import MOST_STEPS_BACK, WHILE_LOOP
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph

SPEC, FLAG = TensorSpec("float32", (2,)), TensorSpec("bool", ())
NUMBER = TensorSpec("float32", ())
RUNNING = one_formula((SPEC, SPEC), "mul", (0, 1))
DOUBLING = one_formula((SPEC,), "neg", (0,))


def counting(limit: int, until: float) -> dict[str, Any]:
    """Adds 1 to a number while it is below `until`."""
    number = TensorSpec("float32", ())
    step = body(
        (number,), (apply_formula("add", (0, 1), number),), (2,), (np.array(1, np.float32),)
    )
    more = (apply_formula("lt", (0, 1), FLAG),)
    test = body((number,), more, (2,), (np.array(until, np.float32),))
    return {"body": step, "carries": 1, "limit": limit, "test": test}


@pytest.mark.parametrize(
    ("start", "limit", "value", "steps", "ended"),
    [
        (0, 9, 3, 3, True),
        (0, 2, 2, 2, False),
        (0, 3, 3, 3, True),
        (5, 9, 5, 0, True),
        (0, 0, 0, 0, False),
    ],
)
def test_while_counts_its_steps(
    start: float, limit: int, value: float, steps: int, ended: bool
) -> None:
    found = WHILE_LOOP.reference([np.array(start, np.float32)], counting(limit, 3.0))
    assert [one.item() for one in found] == [value, steps, ended]


def test_an_open_test_admits_anything() -> None:
    propagate = WHILE_LOOP.tolerance.propagate
    assert propagate is not None
    start = [np.array(0, np.float32)]
    # Sums in float32 are not known exactly, so a test at their very value is open.
    for until, is_open in ((3.0, True), (2.5, False)):
        given = counting(9, until)
        error = propagate(start, [np.array(0.01)], WHILE_LOOP.reference(start, given), given)[0]
        assert error is not None
        assert bool(np.isinf(error)) == is_open
        assert is_open or 0.01 <= error < 0.011


def loop(limit: int, step: Graph, until: float) -> Graph:
    """The carried number at last, while it is above `until`."""
    builder = GraphBuilder()
    more = (apply_formula("gt", (0, 1), FLAG),)
    test = body((NUMBER,), more, (2,), (np.array(until, np.float32),))
    given: dict[str, Any] = {"body": step, "carries": 1, "limit": limit, "test": test}
    return builder.build(builder.add_many("while_loop", [builder.input(NUMBER)], **given)[:1])


# v -> sqrt(v - 1) squared, which has no derivative at 1.
ROOT = body(
    (NUMBER,),
    (
        apply_formula("sub", (0, 1), NUMBER),
        apply_formula("sqrt", (2,), NUMBER),
        apply_formula("mul", (3, 3), NUMBER),
    ),
    (4,),
    (np.array(1, np.float32),),
)


def test_the_gradient_is_that_of_the_steps_that_were_made() -> None:
    half = (apply_formula("mul", (0, 1), NUMBER),)
    halving = body((NUMBER,), half, (2,), (np.array(0.5, np.float32),))
    for start, limit, slope in ((16.0, 30, 1 / 32), (16.0, 3, 1 / 8), (0.5, 30, 1.0)):
        joint = gradient(loop(limit, halving, 0.6), [0])
        assert interpret(joint, [np.array(start, np.float32)])[1] == pytest.approx(slope)


def test_a_body_has_no_say_at_the_point_where_the_loop_ended() -> None:
    # A scan with `where` would give NaN: 0 times the infinite derivative of the square root at 0.
    joint = gradient(loop(8, ROOT, 1.5), [0])
    value, slope = interpret(joint, [np.array(4, np.float32)])
    assert (float(value), float(slope)) == pytest.approx((1.0, 1.0), rel=1e-5)


def test_a_loop_without_a_bound_that_can_be_kept_has_no_gradient() -> None:
    gradient(loop(MOST_STEPS_BACK, ROOT, 1.5), [0])
    with pytest.raises(GraphError, match=r"65537 steps.*at most 65536; write it as a scan"):
        gradient(loop(MOST_STEPS_BACK + 1, ROOT, 1.5), [0])


@pytest.mark.parametrize(
    "changes", [{"limit": -1}, {"carries": 0}, {"test": DOUBLING}, {"body": RUNNING}]
)
def test_loops_that_do_not_fit(changes: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        WHILE_LOOP.infer([TensorSpec("float32", ())], {**counting(9, 3.0), **changes})
