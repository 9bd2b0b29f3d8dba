"""Every operator in float64: each of its samples with float64 in the place of float32, forward and
gradient, on the processor's backend; and what a card without float64 says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array, Operator, Sample
from gpugoblin.errors import EngineError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.conformance.backends import CPU
from tests.conformance.doubled import doubled, has_floats
from tests.conformance.test_gradients import CUSTOM, NONE

STEP = 1e-6

CASES = [
    pytest.param(operator, doubled(sample), id=f"{operator.key}-{sample.name}")
    for operator in OPERATORS.values()
    for sample in operator.samples
    if has_floats(sample)
]


def graph_of(operator: Operator, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(operator.name, values, **attributes))


def doubles(graph: Graph) -> list[int]:
    return [place for place, spec in enumerate(graph.output_specs()) if spec.dtype == "float64"]


def require_conformance(graph: Graph, inputs: Sequence[Array]) -> None:
    exact, bounds = error_bounds(graph, inputs)
    results = CPU.evaluate(graph, inputs)
    assert specs_of(results) == graph.output_specs()
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        assert agrees(result, reference, bound).all()


@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_operator_follows_its_reference(operator: Operator, sample: Sample) -> None:
    inputs = sample.inputs(np.random.default_rng(20261130))
    require_conformance(graph_of(operator, inputs, **sample.attributes), inputs)


@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_gradient_follows_its_reference(operator: Operator, sample: Sample) -> None:
    generator = np.random.default_rng(5)
    inputs = sample.inputs(generator)
    graph = graph_of(operator, inputs, **sample.attributes)
    of = doubles(graph)
    wrt = [place for place, array in enumerate(inputs) if array.dtype == np.float64]
    if not of:
        pytest.skip("it gives no floats")
    if operator.name == NONE or (operator.grad is None and operator.decompose is None):
        with pytest.raises(GraphError) as raised:
            gradient(graph, wrt, of=of, seeded=True)
        assert raised.value.code == "not_differentiable"
        return
    joint = gradient(graph, wrt, of=of, seeded=True)
    seeds = [generator.standard_normal(graph.output_specs()[place].shape) for place in of]
    require_conformance(joint, [*inputs, *seeds])


@pytest.mark.parametrize(
    ("operator", "sample"),
    [case for case in CASES[::5] if not str(case.id).startswith((f"{CUSTOM}@", f"{NONE}@"))],
)
def test_gradient_is_a_finite_difference(operator: Operator, sample: Sample) -> None:
    """The rules are those of float32, which has this test for every sample: here the constants
    count, which must have all their digits."""
    generator = np.random.default_rng(11)
    inputs = [
        np.where(np.isfinite(a) & (a != 0), a, generator.standard_normal(a.shape))
        if a.dtype == np.float64
        else a
        for a in sample.inputs(generator)
    ]
    graph = graph_of(operator, inputs, **sample.attributes)
    of = doubles(graph)
    wrt = [place for place, array in enumerate(inputs) if array.dtype == np.float64]
    if not of or (operator.grad is None and operator.decompose is None):
        pytest.skip("it has no derivative")
    joint = gradient(graph, wrt, of=of, seeded=True)
    seeds = [generator.standard_normal(graph.output_specs()[place].shape) for place in of]
    ways = {place: generator.standard_normal(inputs[place].shape) for place in wrt}
    found = interpret(joint, [*inputs, *seeds])[len(graph.outputs) :]
    shares = [result * ways[place] for place, result in zip(wrt, found, strict=True)]
    slope = sum(float(np.sum(share)) for share in shares)
    size = max(1.0, sum(float(np.sum(np.abs(share))) for share in shares))
    sides = []
    for sign in (1.0, -1.0):
        moved = [x + sign * STEP * ways[p] if p in ways else x for p, x in enumerate(inputs)]
        outputs = [np.nan_to_num(one) for one in interpret(graph, moved)]
        sides.append(sum(float(np.sum(outputs[n] * s)) for n, s in zip(of, seeds, strict=True)))
    expected = (sides[0] - sides[1]) / (2 * STEP)
    assert slope == pytest.approx(expected, rel=1e-6, abs=1e-6 * size)


def test_a_sum_keeps_the_digits_that_float32_loses() -> None:
    inputs = [np.array([1.0, 2.0**-40, -1.0]), np.ones(3)]
    builder = GraphBuilder()
    left, right = (builder.input(spec) for spec in specs_of(inputs))
    row = builder.add("reshape", [left], shape=(1, 3))
    column = builder.add("reshape", [right], shape=(3, 1))
    graph = builder.build([builder.add("matmul", [row, column])])
    assert CPU.evaluate(graph, inputs)[0].item() == 2.0**-40


def test_float64_is_not_in_class_exact_and_not_on_the_cards() -> None:
    graph = graph_of(OPERATORS["softmax@1"], [np.zeros((2, 3))], axis=1)
    assert not_exact(graph) is not None
    cards = pytest.importorskip(
        "app.engine.backends.vulkan.compiling", reason="no Vulkan loader", exc_type=EngineError
    )
    with pytest.raises(EngineError) as refused:
        cards.require_served(graph)
    assert refused.value.code == "task_refused"
    assert "float64" in str(refused.value)
