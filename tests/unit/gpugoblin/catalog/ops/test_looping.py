from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.body_samples import apply_formula, body, one_formula
from gpugoblin.catalog.ops.looping import SCAN
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.numeric import agrees, error_bounds

SPEC = TensorSpec("float32", (2,))
RUNNING = body(
    (SPEC, SPEC), (apply_formula("mul", (0, 1), SPEC), apply_formula("add", (0, 1), SPEC)), (2, 3)
)
DOUBLING = one_formula((SPEC,), "neg", (0,))


def options(**given: Any) -> dict[str, Any]:
    return {"body": RUNNING, "carries": 1, "slices": 1, "length": 3, "reverse": False, **given}


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_loop(reverse: bool) -> None:
    start, steps = np.array([1, 2], np.float32), np.array([[2, 3], [4, 5], [6, 7]], np.float32)
    carried, stacked = SCAN.reference([start, steps], options(reverse=reverse))
    value, expected = start, np.zeros((3, 2), np.float32)
    for step in (2, 1, 0) if reverse else (0, 1, 2):
        expected[step] = value + steps[step]
        value = value * steps[step]
    np.testing.assert_array_equal(carried, value)
    np.testing.assert_array_equal(stacked, expected)


def in_float32(start: Array, steps: Array) -> tuple[Array, Array]:
    value, found = start, np.zeros(steps.shape, np.float32)
    for place, step in enumerate(steps):
        found[place] = value + step
        value = value * step
    return value, found


@given(some.integers(0, 6), some.floats(-2, 2), some.integers(0, 2**32))
def test_float32_steps_are_within_the_bound(length: int, magnitude: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    start = generator.standard_normal(2).astype(np.float32)
    steps = (generator.standard_normal((length, 2)) * 10.0**magnitude).astype(np.float32)
    builder = GraphBuilder()
    values = [builder.input(SPEC), builder.input(TensorSpec("float32", (length, 2)))]
    graph = builder.build(builder.add_many("scan", values, **options(length=length)))
    exact, bounds = error_bounds(graph, [start, steps])
    for one, reference, bound in zip(in_float32(start, steps), exact, bounds, strict=True):
        assert agrees(one, reference, bound).all()


def test_the_gradient_of_a_product() -> None:
    builder = GraphBuilder()
    values = [builder.input(SPEC), builder.input(TensorSpec("float32", (3, 2)))]
    carried = builder.add("scan", values, **options())
    total = builder.add("reduce", [carried], axes=(0,), function="sum")
    joint = gradient(builder.build([total]), [0, 1])
    start, steps = np.array([1, 2], np.float32), np.array([[2, 3], [4, 5], [6, 7]], np.float32)
    _, by_start, by_steps = interpret(joint, [start, steps])
    np.testing.assert_array_equal(by_start, [48, 105])
    np.testing.assert_array_equal(by_steps, [[24, 70], [12, 42], [8, 30]])


@pytest.mark.parametrize(
    "changes",
    [
        {"length": 4},
        {"length": -1},
        {"length": 2**20 + 1},
        {"carries": 3},
        {"carries": -1},
        {"slices": 2},
        {"body": DOUBLING},
        {"carries": 0, "slices": 0, "body": RUNNING},
    ],
)
def test_scans_that_do_not_fit(changes: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=r"attribute_invalid|shapes_mismatch"):
        SCAN.infer([SPEC, TensorSpec("float32", (3, 2))], options(**changes))
