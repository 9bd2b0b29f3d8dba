"""A template is the graph of every batch size."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.building import call, number
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.graph.template import (
    Template,
    decode_template,
    encode_template,
    template_hash,
    unify,
)


def centered(batch: int, divisor: float | None = None) -> Graph:
    """Rows times a matrix, flattened, less their mean over everything."""
    build = GraphBuilder()
    x, w = (build.input(TensorSpec("float32", shape)) for shape in ((batch, 4), (4, 3)))
    flat = build.add("reshape", [build.add("matmul", [x, w])], shape=(3 * batch,))
    total = build.add("reduce", [flat], axes=(0,), function="sum", keepdims=False)
    share = call(build, "div", total, number(build, divisor or float(3 * batch), "float32"))
    return build.build([call(build, "sub", flat, share)])


TEMPLATE = unify(centered(5), 5, centered(7), 7)


@pytest.mark.parametrize("batch", [1, 2, 5, 7, 100])
def test_a_bound_template_is_the_graph(batch: int) -> None:
    assert TEMPLATE.bind(batch) == centered(batch)


def test_a_bound_template_computes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    w = np.ones((4, 3), np.float32)
    (found,) = interpret(TEMPLATE.bind(6), [x, w])
    flat = (x @ w).reshape(-1)
    np.testing.assert_allclose(found, flat - flat.mean(), rtol=1e-6)


def test_bytes_and_hash_do_not_depend_on_the_sizes_that_were_compared() -> None:
    other = unify(centered(11), 11, centered(3), 3)
    assert encode_template(other) == encode_template(TEMPLATE)
    assert template_hash(other) == template_hash(TEMPLATE)
    assert len(template_hash(other)) == 64
    assert template_hash(unify(centered(5, 2.0), 5, centered(7, 2.0), 7)) != template_hash(other)


def test_bytes_come_back() -> None:
    found = decode_template(encode_template(TEMPLATE))
    assert found.bind(9) == centered(9)
    assert encode_template(found) == encode_template(TEMPLATE)


@pytest.mark.parametrize("data", [b"", b"gpgT\x01", b"gpgT\x01" + b"\xff" * 8, encode(centered(2))])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(GraphError, match="malformed"):
        decode_template(data)


def test_what_no_line_goes_through_is_refused() -> None:
    with pytest.raises(GraphError, match=r"0\.3"):
        unify(centered(5, 0.5), 5, centered(7, 0.3), 7)
    with pytest.raises(GraphError, match="on no line"):
        unify(centered(5, 10.0), 5, centered(7, 11.0), 7)
    with pytest.raises(GraphError, match="in both"):
        unify(centered(5), 5, centered(5), 5)


def test_other_operators_are_refused() -> None:
    def reduced(batch: int, function: str) -> Graph:
        build = GraphBuilder()
        x = build.input(TensorSpec("float32", (batch,)))
        found = build.add("reduce", [x], axes=(0,), function=function, keepdims=False)
        return build.build([found])

    with pytest.raises(GraphError, match="function"):
        unify(reduced(5, "sum"), 5, reduced(7, "mean"), 7)


def test_bound_graphs_are_checked() -> None:
    with pytest.raises(GraphError, match="batch of 0"):
        TEMPLATE.bind(0)
    broken = Template(centered(5), centered(5), 5, 7)
    assert broken.bind(9) == centered(5)
    with pytest.raises(GraphError):
        TEMPLATE.bind(1 << 50)
