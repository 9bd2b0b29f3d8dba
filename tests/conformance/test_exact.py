"""Class `exact`: the same bits from the reference interpreter, from the processor's backend and
from cards, for every operator that has the class, and however a result is cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array, Operator, Sample
from gpugoblin.errors import GoblinError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.exact import interpret_exact, not_exact
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.conformance.backends import CPU, CUDA, NO_CUDA, VULKAN, Child


def graph_of(operator: Operator, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(operator.name, values, **attributes))


def floating(operator: Operator, sample: Sample) -> bool:
    """Is it float32 that the sample computes with, in an operator that has the class?"""
    inputs = sample.inputs(np.random.default_rng(20261130))
    graph = graph_of(operator, inputs, **sample.attributes)
    return any(s.dtype == "float32" for s in graph.specs()) and not_exact(graph) is None


def marks(operator: Operator, sample: Sample) -> tuple[pytest.MarkDecorator, ...]:
    """A composite is its primitives, which are all in the fast suite; one sample of it suffices."""
    later = operator.decompose is not None and sample is not operator.samples[0]
    return (pytest.mark.slow,) if later else ()


CASES = [
    pytest.param(
        operator, sample, id=f"{operator.key}-{sample.name}", marks=marks(operator, sample)
    )
    for operator in OPERATORS.values()
    for sample in operator.samples
    if floating(operator, sample)
]
SERVED = [
    operator
    for operator in OPERATORS.values()
    if any(floating(operator, sample) for sample in operator.samples)
]


def bits(array: Array) -> Array:
    return array.view(np.uint32) if array.dtype == np.float32 else array


CHILDREN = {"cpu": CPU, "vulkan": VULKAN} | ({} if NO_CUDA else {"cuda": CUDA})


@pytest.fixture(params=CHILDREN.values(), ids=CHILDREN.keys())
def child(request: pytest.FixtureRequest) -> Child:
    found: Child = request.param
    if found is VULKAN and not keeps_small_numbers():
        pytest.skip("this driver of Vulkan takes small numbers for zero, and refuses the class")
    return found


@cache
def keeps_small_numbers() -> bool:
    inputs = [np.ones(3, np.float32)]
    graph = graph_of(OPERATORS["formula@1"], inputs, tree=call_formula("neg"))
    try:
        VULKAN.evaluate(graph, inputs, "exact")
    except GoblinError as cause:
        if cause.code not in ("task_refused", "class_unsupported"):
            raise
        return False
    return True


def require_equal_bits(child: Child, graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    wanted = interpret_exact(graph, inputs)
    for result, expected in zip(child.evaluate(graph, inputs, "exact"), wanted, strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(bits(result), bits(expected))
    return wanted


def test_fifty_operators_have_the_class() -> None:
    names = {case.values[0].name for case in CASES}  # type: ignore[union-attr]
    assert len(names) >= 50
    assert names >= {"matmul", "conv", "attention", "softmax", "layer_norm", "formula", "reduce"}


@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_operator_has_the_bits_of_its_definition(
    child: Child, operator: Operator, sample: Sample
) -> None:
    inputs = sample.inputs(np.random.default_rng(20261130))
    graph = graph_of(operator, inputs, **sample.attributes)
    results = require_equal_bits(child, graph, inputs)
    exact, bounds = error_bounds(graph, inputs)
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        assert agrees(result, reference, bound).all(), "outside the bounds of class float32"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operator", SERVED, ids=lambda one: one.key)
def test_hundred_random_cases_have_the_bits(child: Child, operator: Operator) -> None:
    samples = [sample for sample in operator.samples if floating(operator, sample)]
    for number in range(100):
        sample = samples[number % len(samples)]
        inputs = sample.inputs(np.random.default_rng(number))
        require_equal_bits(child, graph_of(operator, inputs, **sample.attributes), inputs)


@pytest.mark.parametrize("name", [n for n, f in SCALARS.items() if "float32" in f.accepts])
def test_scalar_function_has_the_bits_of_its_definition(child: Child, name: str) -> None:
    generator = np.random.default_rng(3)
    pattern = generator.integers(0, 2**32, (3, 3000), dtype=np.uint64).astype(np.uint32)
    minus = 2**31  # the pattern of -0.0
    pattern[:, :4] = [[0, 0, minus, minus], [0, minus, 0, minus], [minus, 0, minus, 0]]
    drawn = [*pattern.view(np.float32)][: SCALARS[name].arity]
    if name == "where":
        drawn[0] = drawn[1] > 0
    require_equal_bits(
        child, graph_of(OPERATORS["formula@1"], drawn, tree=call_formula(name)), drawn
    )


@pytest.mark.parametrize("name", ["layer_norm", "softmax", "conv", "matmul", "gelu", "attention"])
def test_gradients_have_the_class(child: Child, name: str) -> None:
    operator = OPERATORS[f"{name}@1"]
    generator = np.random.default_rng(9)
    inputs = operator.samples[0].inputs(generator)
    graph = graph_of(operator, inputs, **operator.samples[0].attributes)
    joint = gradient(graph, [0], seeded=True)
    seed = generator.standard_normal(graph.output_specs()[0].shape).astype(np.float32)
    require_equal_bits(child, joint, [*inputs, seed])


def test_results_do_not_depend_on_the_cut(child: Child) -> None:
    generator = np.random.default_rng(2)
    left = generator.standard_normal((300, 1100)).astype(np.float32)
    right = generator.standard_normal((1100, 600)).astype(np.float32)
    graph = graph_of(OPERATORS["matmul@1"], [left, right])
    (whole,) = require_equal_bits(child, graph, [left, right])
    part = [np.ascontiguousarray(left[17:150]), np.ascontiguousarray(right[:, 100:433])]
    (tile,) = require_equal_bits(child, graph_of(OPERATORS["matmul@1"], part), part)
    np.testing.assert_array_equal(bits(tile), bits(whole[17:150, 100:433]))
    assert (whole != interpret(graph, [left, right])[0]).any(), "the order shows"


def test_what_has_no_fixed_order_is_refused(child: Child) -> None:
    inputs = [np.eye(3, dtype=np.float32)]
    graph = graph_of(OPERATORS["cholesky@1"], inputs)
    assert not_exact(graph) == "cholesky"
    with pytest.raises(GoblinError) as raised:
        child.evaluate(graph, inputs, "exact")
    assert raised.value.code == "task_refused"
