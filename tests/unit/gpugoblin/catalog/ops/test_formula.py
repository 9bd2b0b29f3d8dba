from __future__ import annotations

import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.ops.formula import FORMULA
from gpugoblin.catalog.spec import Split, TensorSpec
from gpugoblin.errors import GraphError

ADD = {"tree": call_formula("add")}


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((3, 1), (4,), (3, 4)),
        ((), (2, 2), (2, 2)),
        ((0, 3), (1, 3), (0, 3)),
        ((1,), (0,), (0,)),
        ((5, 1, 1), (1, 6, 1), (5, 6, 1)),
    ],
)
def test_shapes_broadcast_as_in_numpy(
    left: tuple[int, ...], right: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert FORMULA.infer((f32(*left), f32(*right)), ADD) == (f32(*shape),)


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(GraphError, match="shapes_mismatch"):
        FORMULA.infer((f32(3), f32(4)), ADD)


def test_the_result_dtype_follows_from_the_tree() -> None:
    assert FORMULA.infer((f32(3), f32(3)), {"tree": call_formula("lt")})[0].dtype == "bool"


def test_broadcast_axes_are_not_cut_in_the_operand() -> None:
    assert FORMULA.splits((f32(3, 4), f32(4), f32(3, 1)), {"tree": call_formula("where")}) == (
        Split("i0", "parallel", (0, None, 0), 0),
        Split("i1", "parallel", (1, 0, None), 1),
    )


def test_cost_weighs_the_functions() -> None:
    outputs = (f32(10, 10),)
    cheap = FORMULA.cost((f32(10, 10), f32(10)), outputs, ADD)
    assert (cheap.flops, cheap.bytes_read, cheap.bytes_written) == (100, 440, 400)
    dear = FORMULA.cost((f32(10, 10),), outputs, {"tree": call_formula("erf")})
    assert dear.flops > 10 * cheap.flops
