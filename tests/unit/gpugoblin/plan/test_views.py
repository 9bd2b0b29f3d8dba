"""What a part of a result needs of the operands: computing the part from it gives the part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Node
from gpugoblin.plan.spans import Range, Span, box_of, count_of
from gpugoblin.plan.views import demand, local_attributes, reshape_groups, sum_splits
from tests.helpers.graphs import graphs, inputs_of
from tests.helpers.programs import float32


def slices(box: tuple[Range, ...]) -> tuple[slice, ...]:
    return tuple(slice(*one) for one in box)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_part_of_the_operands_gives_the_part_of_the_result(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_nodes=4))
    inputs = data.draw(inputs_of(graph))
    values = {number: array for number, array in enumerate(inputs)}
    for place, constant in enumerate(graph.constants):
        values[len(inputs) + place] = constant.array()
    specs = graph.specs()
    for first, node in graph.numbered_nodes():
        operator = registry.get(node.operator, node.version)
        whole = operator.reference([values[one] for one in node.inputs], node.attrs)
        values.update({first + number: array for number, array in enumerate(whole)})
        pieces = []
        for extent in node.outputs[0].shape:
            start = data.draw(st.integers(0, extent))
            pieces.append((start, data.draw(st.integers(start, extent))))
        wanted = tuple(Span(axis) for axis in range(len(pieces)))
        needed = demand(node, [specs[one] for one in node.inputs], wanted)
        computed = box_of(needed.computed, pieces)
        if not count_of(pieces):
            continue
        assert all(
            a <= start and stop <= b for (start, stop), (a, b) in zip(pieces, computed, strict=True)
        )
        parts = [
            values[one][slices(box_of(spans, pieces))]
            for one, spans in zip(node.inputs, needed.operands, strict=True)
        ]
        if node.operator == "concat":
            parts = [part for part in parts if part.size]
        boxes = [box_of(spans, pieces) for spans in needed.operands if node.inputs]
        if node.operator == "concat":
            boxes = [box for box in boxes if count_of(box)]
        operands = [specs[one] for one in node.inputs]
        attributes = local_attributes(node, operands, boxes[0], computed)
        found = operator.reference(parts, attributes)
        for one, other in zip(found, whole, strict=True):
            np.testing.assert_allclose(
                one.astype(np.float64), other[slices(computed)].astype(np.float64), rtol=1e-5
            )


def node_of(operator: str, source: tuple[int, ...], **attributes: object) -> Node:
    builder = GraphBuilder()
    x = builder.input(float32(*source))
    return builder.build([builder.add(operator, [x], **attributes)]).nodes[0]


windows = st.fixed_dictionaries(
    {
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 3),
        "low": st.integers(-2, 4),
        "high": st.integers(-2, 4),
        "between": st.integers(0, 2),
    }
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), windows), min_size=1, max_size=2),
    st.sampled_from(["conv", "max", "sum", "window"]),
    st.data(),
)
def test_windows_need_their_neighbors(
    axes: list[tuple[int, int, dict[str, int]]], kind: str, data: st.DataObject
) -> None:
    """Cut anywhere, also within the padding, a convolution or pooling gives the same places."""
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-9, 9, (2, 3, *(n for n, _, _ in axes))).astype(np.float32)]
    given_ = {name: tuple(w[name] for _, _, w in axes) for name in axes[0][2]}
    extents = tuple(extent for _, extent, _ in axes)
    if kind == "conv":
        arrays.append(generator.integers(-9, 9, (2, 3, *extents)).astype(np.float32))
    else:
        del given_["between"]
        given_.update(window=extents)
    if kind in ("max", "sum"):
        given_.update(function=kind)
    builder = GraphBuilder()
    inputs = [builder.input(float32(*array.shape)) for array in arrays]
    made = builder.add("pool" if kind in ("max", "sum") else kind, inputs, **given_)
    node = builder.build([made]).nodes[0]
    specs = [float32(*array.shape) for array in arrays]
    operator = registry.get(node.operator)
    whole = operator.reference(arrays, node.attrs)[0]
    pieces = []
    for extent in whole.shape:
        start = data.draw(st.integers(0, extent))
        pieces.append((start, data.draw(st.integers(start, extent))))
    if not count_of(pieces):
        return
    needed = demand(node, specs, tuple(Span(axis) for axis in range(len(pieces))))
    computed = box_of(needed.computed, pieces)
    assert computed[-len(axes) :] == tuple(pieces[-len(axes) :])
    assert kind == "window" or computed == tuple(pieces)
    boxes = [box_of(spans, pieces) for spans in needed.operands]
    for (extent, window, given_axis), box, piece in zip(
        axes, boxes[0][2:], pieces[-len(axes) :], strict=True
    ):
        reach = (piece[1] - piece[0] - 1) * given_axis["stride"]
        reach += (window - 1) * given_axis["dilation"] + 1
        assert box[1] - box[0] <= min(extent, reach)
    parts = [array[slices(box)] for array, box in zip(arrays, boxes, strict=True)]
    found = operator.reference(parts, local_attributes(node, specs, boxes[0], computed))[0]
    np.testing.assert_array_equal(found, whole[slices(computed)])


def test_whole_windows_keep_their_attributes() -> None:
    node = node_of("pool", (9,), function="sum", window=(2,), stride=(3,), dilation=(1,),
                   low=(0,), high=(0,))  # fmt: skip
    wanted = demand(node, [float32(9)], (Span(fixed=(0, 3)),))
    assert wanted.operands == ((Span(fixed=(0, 9)),),)
    assert local_attributes(node, [float32(9)], ((0, 9),), ((0, 3),)) == node.attrs


def test_a_slice_needs_only_its_range() -> None:
    node = node_of("slice", (20,), start=(2,), stop=(18,), step=(3,))
    needed = demand(node, [float32(20)], (Span(0),))
    assert box_of(needed.operands[0], [(1, 3)]) == ((5, 9),)


def test_a_merge_needs_whole_rows_or_a_part_of_one() -> None:
    node = node_of("reshape", (3, 4, 5), shape=(60,))
    needed = demand(node, [float32(3, 4, 5)], (Span(0),))
    assert box_of(needed.operands[0], [(20, 60)]) == ((1, 3), (0, 4), (0, 5))
    assert box_of(needed.operands[0], [(25, 35)]) == ((1, 2), (1, 3), (0, 5))
    assert box_of(needed.operands[0], [(26, 28)]) == ((1, 2), (1, 2), (1, 3))
    assert box_of(needed.computed, [(19, 21)]) == ((0, 40),)


def test_a_split_needs_whole_groups() -> None:
    node = node_of("reshape", (12, 5), shape=(3, 4, 5))
    needed = demand(node, [float32(12, 5)], (Span(0), Span(1), Span(2)))
    assert box_of(needed.operands[0], [(1, 2), (1, 2), (0, 2)]) == ((4, 8), (0, 2))
    assert box_of(needed.computed, [(1, 2), (1, 2), (0, 2)]) == ((1, 2), (0, 4), (0, 2))


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((6, 4), (6, 4), [((0,), (0,)), ((1,), (1,))]),
        ((2, 3, 4), (6, 4), [((0, 1), (0,)), ((2,), (1,))]),
        ((6, 4), (2, 3, 4), [((0,), (0, 1)), ((1,), (2,))]),
        ((6, 4), (8, 3), [((0, 1), (0, 1))]),
        ((1, 6), (6, 1, 1), [((1,), (0,))]),
        ((0, 6), (6, 0), []),
        ((), (1, 1), []),
    ],
)
def test_groups(
    before: tuple[int, ...],
    after: tuple[int, ...],
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    assert reshape_groups(before, after) == groups


def test_sums_that_can_be_cut() -> None:
    node = node_of("reduce", (4, 1, 5), axes=(0, 1), function="max")
    assert [one.index for one in sum_splits(node, [float32(4, 1, 5)])] == ["i0"]
    mean = node_of("reduce", (4, 5), axes=(0,), function="mean")
    assert sum_splits(mean, [TensorSpec("float32", (4, 5))]) == ()


def test_a_part_of_a_sum() -> None:
    node = node_of("reduce", (8, 5), axes=(0,), function="sum")
    needed = demand(node, [float32(8, 5)], (Span(0),), {"i0": Span(1)})
    assert box_of(needed.operands[0], [(1, 3), (4, 8)]) == ((4, 8), (1, 3))
