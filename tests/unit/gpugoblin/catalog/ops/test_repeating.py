from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.body_samples import apply_formula, body, one_formula
from gpugoblin.catalog.ops.repeating import WHILE_LOOP
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient

SPEC, FLAG = TensorSpec("float32", (2,)), TensorSpec("bool", ())
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


def test_while_has_no_gradient() -> None:
    builder = GraphBuilder()
    found = builder.add_many(
        "while_loop", [builder.input(TensorSpec("float32", ()))], **counting(9, 3.0)
    )
    graph = builder.build(found)
    with pytest.raises(GraphError, match="not_differentiable"):
        gradient(graph, [0])


@pytest.mark.parametrize(
    "changes", [{"limit": -1}, {"carries": 0}, {"test": DOUBLING}, {"body": RUNNING}]
)
def test_loops_that_do_not_fit(changes: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        WHILE_LOOP.infer([TensorSpec("float32", ())], {**counting(9, 3.0), **changes})
