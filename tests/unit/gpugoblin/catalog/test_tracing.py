from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpugoblin.catalog.building import call, number
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Attributes, Builder, Split, TensorSpec
from gpugoblin.catalog.tracing import trace
from gpugoblin.errors import GraphError


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def gram(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    return (builder.add("matmul", [inputs[0], inputs[0]], transpose_b=True),)


def twice(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    return (call(builder, "mul", inputs[0], number(builder, 2.0)),)


def nothing(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    return ()


def test_specs_values_and_cost() -> None:
    found = trace(twice, [f32(3, 4)], {})
    assert found.output_specs() == (f32(3, 4),)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    values = found.evaluate([array])
    assert values[found.outputs[0]].dtype == np.float64
    np.testing.assert_array_equal(values[found.outputs[0]], 2 * array)
    assert found.cost().flops == 12


def test_an_index_on_two_axes_of_the_output_stays_whole() -> None:
    splits = trace(gram, [f32(3, 4)], {}).splits()
    assert {split.kind for split in splits} == {"whole"}
    assert {split.output for split in splits} == {0, 1, None}


@pytest.mark.parametrize(
    ("name", "specs", "attributes", "parallel"),
    [
        ("softmax", (f32(2, 3, 4),), {"axis": 1}, {0, 2}),
        ("layer_norm", (f32(2, 3, 4), f32(), f32(4)), {"axes": (2,)}, {0, 1}),
        ("gelu", (f32(2, 3),), {"approximation": "none"}, {0, 1}),
        (
            "attention",
            (f32(2, 5, 4), f32(2, 6, 4), f32(2, 6, 3), f32()),
            {"causal": False},
            {0, 1, 2},
        ),
        ("attention", (f32(2, 5, 4), f32(2, 6, 4), f32(2, 6, 3), f32()), {"causal": True}, {0, 2}),
    ],
)
def test_what_can_be_cut(
    name: str, specs: tuple[TensorSpec, ...], attributes: Attributes, parallel: set[int]
) -> None:
    splits = get(name).splits(specs, attributes)
    assert {split.output for split in splits if split.kind == "parallel"} == parallel


def test_a_scale_is_cut_with_the_axis_that_it_scales() -> None:
    splits = get("batch_norm").splits([f32(2, 3), f32(), f32(3), f32(3)], {"axis": 1})
    assert Split("i0", "parallel", (0, None, None, None), 0) in splits


def test_a_decomposition_has_outputs_of_primitives() -> None:
    with pytest.raises(GraphError, match="graph_malformed"):
        trace(nothing, [f32(1)], {})
    with pytest.raises(GraphError, match="unknown_operator"):
        trace(lambda b, inputs, _: (b.add("softmax", inputs, axis=0),), [f32(1)], {})
