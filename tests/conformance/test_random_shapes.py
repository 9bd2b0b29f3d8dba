"""Operators of windows, images and losses at random shapes: the processor follows the reference,
and the gradient is the finite difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.conformance.backends import CPU
from tests.conformance.test_gradients import require_slope

pytestmark = pytest.mark.slow  # half a minute in all

small = st.integers(1, 3)
RELAXED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def require(
    name: str, inputs: Sequence[Array], *, sloped: bool = True, **attributes: object
) -> None:
    """Both promises, the second where `sloped`; what cannot be (a window longer than its data) is
    refused or empty."""
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    graph: Graph = builder.build(builder.add_many(name, values, **attributes))
    exact, bounds = error_bounds(graph, inputs)
    found = CPU.evaluate(graph, inputs)
    for one, reference, bound in zip(found, exact, bounds, strict=True):
        assert agrees(one, reference, bound).all()
    if sloped and graph.output_specs()[0].count:
        require_slope(graph, inputs, np.random.default_rng(1), within=1e-5)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def sliding(draw: st.DrawFn, *, spread: bool) -> tuple[tuple[int, ...], dict[str, object]]:
    """Extents of the data, and the attributes of windows over them."""
    rank = draw(st.integers(1, 3))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    made: dict[str, object] = {
        "stride": each(1, 3), "dilation": each(1, 2), "low": each(-1, 2), "high": each(-1, 2),
        "window": each(1, 3),
    }  # fmt: skip
    if spread:
        made["between"] = each(0, 2)
    return each(1, 6), made


@RELAXED
@given(sliding(spread=True), small, small, small, small)
def test_conv(
    chosen: tuple[tuple[int, ...], dict[str, object]],
    examples: int,
    groups: int,
    channels: int,
    outputs: int,
) -> None:
    space, attributes = chosen
    window = attributes.pop("window")
    assert isinstance(window, tuple)
    data = normal(0, examples, groups * channels, *space)
    require("conv", [data, normal(1, groups * outputs, channels, *window)], groups=groups,
            **attributes)  # fmt: skip


@RELAXED
@given(sliding(spread=False), small, st.sampled_from(["max", "sum", "average", "window"]))
def test_pools_and_windows(
    chosen: tuple[tuple[int, ...], dict[str, object]], examples: int, kind: str
) -> None:
    space, attributes = chosen
    if kind == "max":
        # A window over padding alone has no derivative: its maximum is -infinity.
        attributes.update(low=(0,) * len(space), high=(0,) * len(space))
    if kind in ("max", "sum"):
        require("pool", [normal(0, examples, *space)], function=kind, **attributes)
    elif kind == "average":
        # What lies in no element has no mean.
        attributes.update(low=(0,) * len(space), high=(0,) * len(space))
        require("average_pool", [normal(0, examples, *space)], **attributes)
    else:
        require("window", [normal(0, examples, *space)], **attributes)


@RELAXED
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), min_size=1, max_size=2),
    st.sampled_from(["linear", "cubic", "nearest"]),
    st.sampled_from(["half", "corners", "asymmetric"]),
    st.booleans(),
)
def test_resize_and_adaptive_pool(
    axes: list[tuple[int, int]], method: str, alignment: str, smooth: bool
) -> None:
    data, places = normal(0, 2, *(n for n, _ in axes)), tuple(m for _, m in axes)
    smooth = smooth and method != "nearest"
    require("resize", [data], method=method, alignment=alignment, places=places, smooth=smooth)
    for function in ("mean", "max"):
        require("adaptive_pool", [data], function=function, places=places)


@RELAXED
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
)
def test_grid_sample(space: list[int], points: int, padding: str, corners: bool) -> None:
    inputs = [normal(0, 2, 2, *space), normal(1, 2, *(points,) * len(space), len(space))]
    require("grid_sample", inputs, method="linear", padding=padding, corners=corners)


@RELAXED
@given(st.integers(1, 5), small, st.integers(2, 4), st.integers(0, 3), st.data())
def test_ctc(steps: int, examples: int, classes: int, labels: int, data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, min(labels, (steps + 1) // 2))) for _ in range(examples)]
    targets = np.random.default_rng(2).integers(1, classes, (examples, labels))
    lengths = np.full(examples, steps)
    require("ctc", [normal(0, steps, examples, classes), targets, lengths, np.array(counts)])


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        require("window", [normal(0, 4)], window=(0,), stride=(1,), dilation=(1,), low=(0,),
                high=(0,))  # fmt: skip
