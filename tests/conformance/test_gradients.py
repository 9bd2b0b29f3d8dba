"""Every differentiable operator and scalar function, against float64 finite differences of the
reference, and its gradient graph on every backend against the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array, Operator, Sample
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret_wide
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import Bound, agrees, error_bounds
from tests.conformance.backends import BACKENDS, Backend, kept

STEP = 1e-6


def graph_of(operator: Operator, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(operator.name, values, **attributes))


def floating(arrays: Sequence[Array]) -> list[int]:
    return [place for place, array in enumerate(arrays) if array.dtype.kind == "f"]


def finite(inputs: Sequence[Array], generator: np.random.Generator) -> list[Array]:
    """Other numbers in the place of NaN, infinity and 0, where operators have no differences."""
    return [
        np.where(
            np.isfinite(array) & (array != 0), array, generator.standard_normal(array.shape)
        ).astype(array.dtype)
        if array.dtype.kind == "f"
        else np.array(array)
        for array in inputs
    ]


def differentiable(operator: Operator, sample: Sample) -> bool:
    inputs = sample.inputs(np.random.default_rng(0))
    graph = graph_of(operator, inputs, **sample.attributes)
    return bool(floating(inputs)) and any(s.dtype == "float32" for s in graph.output_specs())


CUSTOM = "custom_gradient"
"""Its derivative is what the program says and not the slope of its values; so say tests of its own.
The other one refuses to have any."""
NONE = "no_gradient"


CASES = [
    pytest.param(operator, sample, id=f"{operator.key}-{sample.name}")
    for operator in OPERATORS.values()
    if operator.name != NONE
    if operator.grad is not None or operator.decompose is not None
    for sample in operator.samples
    if differentiable(operator, sample)
]
SLOPES = [case for case in CASES if CUSTOM not in str(case.id)]


def require_slope(
    graph: Graph, inputs: Sequence[Array], generator: np.random.Generator, within: float = 1e-6
) -> None:
    """The derivative along a random direction, of a random combination of the outputs."""
    wrt = floating(inputs)
    of = [n for n, spec in enumerate(graph.output_specs()) if spec.dtype == "float32"]
    joint = gradient(graph, wrt, of=of, seeded=True)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs]
    seeds = [generator.standard_normal(graph.output_specs()[place].shape) for place in of]
    ways = {place: generator.standard_normal(wide[place].shape) for place in wrt}
    results = interpret_wide(joint, [*wide, *seeds])[len(graph.outputs) :]
    slope = sum(float(np.sum(r * ways[p])) for r, p in zip(results, wrt, strict=True))
    sides = []
    for sign in (1.0, -1.0):
        moved = [x + sign * STEP * ways[p] if p in ways else x for p, x in enumerate(wide)]
        outputs = interpret_wide(graph, moved)
        # The mean of nothing is NaN and stays so.
        known = [np.nan_to_num(outputs[n]) for n in of]
        sides.append(sum(float(np.sum(o * s)) for o, s in zip(known, seeds, strict=True)))
    expected = (sides[0] - sides[1]) / (2 * STEP)
    size = sum(float(np.sum(np.abs(r * ways[p]))) for r, p in zip(results, wrt, strict=True))
    assert slope == pytest.approx(expected, rel=within, abs=within * max(size, 1.0))


@pytest.mark.parametrize(("operator", "sample"), SLOPES)
def test_gradients_are_finite_differences(operator: Operator, sample: Sample) -> None:
    generator = np.random.default_rng(20261130)
    inputs = finite(sample.inputs(generator), generator)
    graph = graph_of(operator, inputs, **sample.attributes)
    require_slope(graph, inputs, generator)


@pytest.mark.parametrize(("operator", "sample"), SLOPES)
def test_gradients_of_gradients_are_finite_differences(operator: Operator, sample: Sample) -> None:
    generator = np.random.default_rng(7)
    inputs = finite(sample.inputs(generator), generator)
    graph = graph_of(operator, inputs, **sample.attributes)
    of = [n for n, spec in enumerate(graph.output_specs()) if spec.dtype == "float32"]
    joint = gradient(graph, floating(inputs), of=of, seeded=True)
    seeds = [
        generator.standard_normal(graph.output_specs()[place].shape).astype(np.float32)
        for place in of
    ]
    builder_outputs = tuple(joint.outputs[len(graph.outputs) :])
    only = Graph(joint.inputs, joint.constants, joint.nodes, builder_outputs)
    require_slope(pruned(only), [*inputs, *seeds], generator, within=1e-5)


def pruned(graph: Graph) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in graph.inputs]
    values.extend(builder.constant(constant.array()) for constant in graph.constants)
    for node in graph.nodes:
        operands = tuple(values[value] for value in node.inputs)
        values.extend(builder.apply(node.operator, node.version, operands, dict(node.attributes)))
    return builder.build([values[value] for value in graph.outputs])


@kept
def joint_of(operator: Operator, sample: Sample) -> tuple[Graph, list[Array]]:
    """The gradient graph and its inputs: the same for all backends, whose tests stand together."""
    generator = np.random.default_rng(5)
    inputs = sample.inputs(generator)
    graph = graph_of(operator, inputs, **sample.attributes)
    of = [n for n, spec in enumerate(graph.output_specs()) if spec.dtype == "float32"]
    joint = gradient(graph, floating(inputs), of=of, seeded=True)
    seeds = [
        generator.standard_normal(graph.output_specs()[place].shape).astype(np.float32)
        for place in of
    ]
    return joint, [*inputs, *seeds]


@kept
def expected(operator: Operator, sample: Sample) -> tuple[tuple[Array, ...], tuple[Bound, ...]]:
    return error_bounds(*joint_of(operator, sample))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_gradient_graphs_follow_the_reference(
    backend: Backend, operator: Operator, sample: Sample
) -> None:
    joint, everything = joint_of(operator, sample)
    if not backend.serves(joint):
        pytest.skip(f"{backend.name} has not all of it")
    exact, bounds = expected(operator, sample)
    results = backend.evaluate(joint, everything)
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        assert agrees(result, reference, bound).all()


POINTS = np.array([-0.83, -0.4, -0.11, 0.23, 0.47, 0.91])
SHIFTED = {
    "acosh": 2.5,
    "sqrt": 1.0,
    "lgamma": 2.0,
    "digamma": 2.0,
    "rsqrt": 1.0,
    "log": 1.0,
    "log2": 1.0,
    "log10": 1.0,
}
STEPS = ("bits_float", "nextafter", "round_bfloat16", "round_float16", "round_tf32")
"""Their results go in steps, so differences say nothing."""
SCALAR_CASES = [
    name
    for name, function in SCALARS.items()
    if function.gradient is not None and name not in STEPS
]


@pytest.mark.parametrize("name", SCALAR_CASES)
def test_scalar_derivatives_are_finite_differences(name: str) -> None:
    arity = SCALARS[name].arity
    first = POINTS + SHIFTED.get(name, 0.0)
    inputs: list[Array] = [first, POINTS[::-1] * 1.7 + 0.013, POINTS + 0.31][:arity]
    if name in ("pow", "xlogy"):
        inputs = [POINTS + 1.0, POINTS[::-1]]
    if name == "xlogy":
        inputs = inputs[::-1]
    if name == "where":
        inputs = [POINTS > 0, POINTS, POINTS[::-1] * 2]
    graph = graph_of(
        OPERATORS["formula@1"],
        [x.astype(np.float32) if x.dtype.kind == "f" else x for x in inputs],
        tree=call_formula(name),
    )
    wrt = floating(inputs)
    joint = gradient(graph, wrt, seeded=True)
    results = interpret_wide(joint, [*inputs, np.ones(POINTS.shape)])[1:]
    for place, result in zip(wrt, results, strict=True):
        ends = []
        for sign in (1.0, -1.0):
            moved = list(inputs)
            moved[place] = inputs[place] + sign * STEP
            ends.append(interpret_wide(graph, moved)[0])
        expected = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-7)


def test_every_float_function_has_a_derivative() -> None:
    for name, function in SCALARS.items():
        dtypes = ["float32"] * function.arity
        if name == "where":
            dtypes[0] = "bool"
        if name == "bits_float":
            dtypes[0] = "int32"
        gives_float = function.dtype_rule(dtypes) == "float32"
        assert gives_float == (function.gradient is not None), name
