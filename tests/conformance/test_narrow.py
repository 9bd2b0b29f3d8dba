"""Integers of every width in products, sums, scans, sorting, searching and scattering: the same as
the reference on every backend that serves them, to the last bit; they wrap at their ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import DTYPES, INTEGERS, Array
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from tests.conformance.backends import BACKENDS, Backend

CASES: dict[str, tuple[str, tuple[tuple[int, ...], ...], dict[str, object]]] = {
    "matmul": ("matmul", ((5, 70), (70, 4)), {}),
    "matmul-turned": ("matmul", ((2, 6, 3), (2, 5, 6)), {"transpose_a": True, "transpose_b": True}),
    **{
        f"reduce-{function}": (
            "reduce", ((3, 50, 2),), {"function": function, "axes": (1,), "keepdims": False},
        )
        for function in ("sum", "prod", "max", "min")
    },
    **{
        f"scan-{function}": (
            "scan_reduce", ((3, 600),), {"function": function, "axis": 1, "reverse": True},
        )
        for function in ("sum", "prod", "max", "min")
    },
    "argmax": ("reduce_arg", ((4, 9),), {"function": "argmax", "axis": 1, "keepdims": True}),
    "argmin": ("reduce_arg", ((4, 9),), {"function": "argmin", "axis": 0, "keepdims": False}),
    "topk": ("topk", ((3, 40),), {"axis": 1, "k": 7, "largest": True}),
    "topk-smallest": ("topk", ((3, 400),), {"axis": 1, "k": 5, "largest": False}),
    "sort": ("sort", ((2, 33),), {"axis": 1}),
    "searchsorted": ("searchsorted", ((12,), (3, 5)), {"right": True}),
    "searchsorted-rows": ("searchsorted", ((2, 12), (2, 5)), {"right": False}),
}  # fmt: skip


def graph_of(name: str, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(OPERATORS[f"{name}@1"].name, values, **attributes))


def drawn(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Over the whole range, so that sums and products wrap."""
    info = np.iinfo(DTYPES[dtype])
    generator = np.random.default_rng(seed)
    return generator.integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)


def require_equal(backend: Backend, graph: Graph, inputs: Sequence[Array]) -> None:
    if not backend.serves(graph):
        pytest.skip(f"{backend.name} has no kernel for this dtype")
    for result, wanted in zip(
        backend.evaluate(graph, inputs), interpret(graph, inputs), strict=True
    ):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("backend", BACKENDS[1:], ids=lambda backend: backend.name)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", CASES)
def test_integers_of_every_width(backend: Backend, dtype: str, name: str) -> None:
    operator, shapes, attributes = CASES[name]
    inputs = [drawn(dtype, shape, seed) for seed, shape in enumerate(shapes)]
    require_equal(backend, graph_of(operator, inputs, **attributes), inputs)


@pytest.mark.parametrize("backend", BACKENDS[1:], ids=lambda backend: backend.name)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", ["set", "add", "min", "max"])
@pytest.mark.parametrize("columns", [1, 3, 20])
def test_scattered_integers(backend: Backend, dtype: str, function: str, columns: int) -> None:
    indices = np.array([[0, 2], [2, 4]], np.int32)
    inputs = [drawn(dtype, (5, columns), 1), indices, drawn(dtype, (2, 2, columns), 2)]
    require_equal(backend, graph_of("scatter", inputs, axis=0, function=function), inputs)


@pytest.mark.parametrize("backend", BACKENDS[1:], ids=lambda backend: backend.name)
@pytest.mark.parametrize("large", [False, True])
def test_convolution_of_integers(backend: Backend, large: bool) -> None:
    """Numbers of 8 bits, as class `int8` has them, and such whose sums wrap."""
    generator = np.random.default_rng(3)
    most = 2**31 - 1 if large else 127
    inputs = [
        generator.integers(-most, most, shape, np.int32, endpoint=True)
        for shape in ((2, 6, 9, 8), (10, 3, 3, 3))
    ]
    given = {"stride": (1, 2), "dilation": (1, 1), "low": (1, 1), "high": (1, 1),
             "between": (0, 0), "groups": 2}  # fmt: skip
    require_equal(backend, graph_of("conv", inputs, **given), inputs)
