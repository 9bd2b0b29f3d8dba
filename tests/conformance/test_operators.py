"""Every operator and every scalar function, on every backend that is there, against the reference.

An element of the result may lie from the reference by the operator's own bound; integers, bools and
moved elements must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.casting import STORAGE, cast_array
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array, Operator, Sample
from gpugoblin.errors import GoblinError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import Bound, agrees, error_bounds
from tests.conformance.backends import BACKENDS, NO_CUDA, Backend, kept

CASES = [
    pytest.param(operator, sample, id=f"{operator.key}-{sample.name}")
    for operator in OPERATORS.values()
    for sample in operator.samples
]
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 7.25, 88.0, -88.0, 1e-30, 3e38, -3e38),
    *(np.inf, -np.inf, np.nan, 1.5e-8, 100000.0, 0.93, 3.999),
)
EDGES = {
    "float32": FLOATS,
    "int32": [0, 1, -1, 2, -2, 7, 31, 32, 33, -(2**31), 2**31 - 1, 46341],
    "int64": [0, 1, -1, 2, -2, 7, 63, 64, 65, -(2**63), 2**63 - 1, 3037000500],
    "bool": [False, True],
    "int8": [0, 1, -1, 2, -2, 7, 8, -128, 127, 100],
    "int16": [0, 1, -1, 2, -2, 15, 16, -(2**15), 2**15 - 1, 300],
    "uint8": [0, 1, 2, 7, 8, 128, 255, 200],
    "float16": FLOATS,
    "float64": (*FLOATS, 1e300, -1e300, 1e-310, 1 + 2.0**-50, 1e9 + 0.5),
    "bfloat16": FLOATS,
}
SCALAR_CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name, function in SCALARS.items()
    for dtype in function.accepts
]


Expected = tuple[tuple[Array, ...], tuple[Bound, ...]]


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    return found


def graph_of(operator: Operator, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(operator.name, values, **attributes))


@kept
def expected(operator: Operator, sample: Sample) -> Expected:
    """The same for all backends, whose tests of one sample stand together."""
    inputs = sample.inputs(np.random.default_rng(20261130))
    return error_bounds(graph_of(operator, inputs, **sample.attributes), inputs)


def require_conformance(
    backend: Backend, graph: Graph, inputs: Sequence[Array], known: Expected | None = None
) -> None:
    if not backend.serves(graph):
        pytest.skip(f"{backend.name} has no kernel for this graph yet")
    exact, bounds = known or error_bounds(graph, inputs)
    results = backend.evaluate(graph, inputs)
    assert specs_of(results) == graph.output_specs()
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        wrong = ~agrees(result, reference, bound)
        assert not wrong.any(), (
            f"{backend.name}: {wrong.sum()} of {wrong.size} elements, the first is "
            f"{result[wrong].flat[0]!r}, the reference {reference[wrong].flat[0]!r}"
        )


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_operator_follows_its_reference(
    backend: Backend, operator: Operator, sample: Sample
) -> None:
    inputs = sample.inputs(np.random.default_rng(20261130))
    graph = graph_of(operator, inputs, **sample.attributes)
    before = [array.tobytes() for array in inputs]
    require_conformance(backend, graph, inputs, expected(operator, sample))
    assert [array.tobytes() for array in inputs] == before, "an input was written to"


@pytest.mark.parametrize(("name", "dtype"), SCALAR_CASES)
def test_scalar_function_at_its_edges(backend: Backend, name: str, dtype: str) -> None:
    arity = SCALARS[name].arity
    edges = np.array(EDGES[dtype], DTYPES[dtype])
    inputs: list[Array] = [edges.reshape(-1, *(1,) * place) for place in range(arity)]
    if name == "where":
        inputs = [np.array([False, True]), edges.reshape(-1, 1), edges.reshape(-1, 1, 1)]
    graph = graph_of(OPERATORS["formula@1"], inputs, tree=call_formula(name))
    require_conformance(backend, graph, inputs)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast_inside_a_formula_is_the_cast_operator(
    backend: Backend, source: str, target: str
) -> None:
    edges = stored(source)
    expected = cast_array(edges, target)
    operator = graph_of(OPERATORS["cast@1"], [edges], dtype=target)
    if not backend.serves(operator):
        pytest.skip(f"{backend.name} does not have these dtypes")
    np.testing.assert_array_equal(backend.evaluate(operator, [edges])[0], expected)
    if source != target:
        formula = graph_of(OPERATORS["formula@1"], [edges], tree=cast_tree(target))
        np.testing.assert_array_equal(backend.evaluate(formula, [edges])[0], expected)


def stored(dtype: str) -> Array:
    if dtype in STORAGE:
        with np.errstate(over="ignore"):
            return cast_array(np.array(EDGES[dtype], np.float32), dtype)
    return np.array(EDGES[dtype], DTYPES[dtype])


def cast_tree(target: str) -> Formula:
    builder = FormulaBuilder()
    return builder.build(builder.cast(builder.input(0), target))


@pytest.mark.parametrize("index", [-1, 3, 2**31 - 1])
def test_gather_refuses_an_index_out_of_range(backend: Backend, index: int) -> None:
    inputs = [np.zeros((3, 2), np.float32), np.array([0, index, 1], np.int32)]
    graph = graph_of(OPERATORS["gather@1"], inputs, axis=0)
    with pytest.raises(GoblinError) as raised:
        backend.evaluate(graph, inputs)
    assert raised.value.code == "index_out_of_range"


def test_cuda_is_among_the_backends() -> None:
    if NO_CUDA:
        pytest.skip(NO_CUDA)
    assert [backend.name for backend in BACKENDS] == ["reference", "cpu", "vulkan", "cuda"]
