"""Groups of elementwise nodes: whole, disjoint, and never dependent on themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import gpugoblin as gg
from gpugoblin.capture.expression import LITERAL, Expression, in_order
from gpugoblin.capture.fusing import group_elementwise
from gpugoblin.catalog.formula import MAX_FORMULA_INPUTS, MAX_FORMULA_NODES

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "exp", "sum", "row", "where"]), st.integers(0, 99),
              st.integers(0, 99)),
    min_size=1, max_size=60,
)  # fmt: skip


def grown(steps: list[tuple[str, int, int]]) -> list[gg.Array]:
    pool = [gg.array(np.ones((3, 4), np.float32)), gg.array(np.zeros((3, 4), np.float32))]
    for kind, first, second in steps:
        a, b = pool[first % len(pool)], pool[second % len(pool)]
        match kind:
            case "add":
                pool.append(a + b * 2)
            case "exp":
                pool.append(gg.tanh(a))
            case "sum":
                pool.append(a - a.sum(axis=1, keepdims=True))
            case "row":
                pool.append(a + gg.exp(b[:1]))
            case _:
                pool.append(gg.where(a > b, a, 0.5))
    return pool


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_groups_can_be_computed_in_some_order(steps: list[tuple[str, int, int]]) -> None:
    outputs = tuple(array.value for array in grown(steps)[-3:])
    nodes = list(in_order(outputs))
    groups = group_elementwise(nodes, outputs)
    for node in nodes:
        assert (node in groups) == (node.elementwise and node.operator != LITERAL)
    ready: set[Expression] = set()
    for node in nodes:
        if node in groups and groups[node].root is not node:
            continue
        needed = groups[node].reads if node in groups else node.operands
        assert all(value.node in ready or value.node.operator == LITERAL for value in needed)
        ready.add(node)
    for group in groups.values():
        assert len(group.reads) <= MAX_FORMULA_INPUTS
        assert len(group.nodes) + len(group.reads) + len(group.literals) <= MAX_FORMULA_NODES
        shapes = {node.specs[0].shape for node in group.nodes}
        assert shapes == {group.root.specs[0].shape}


def test_an_output_is_kept_although_others_read_it() -> None:
    x = gg.array(np.ones(3, np.float32))
    middle = gg.exp(x)
    last = middle + 1
    groups = group_elementwise(
        list(in_order((middle.value, last.value))), (middle.value, last.value)
    )
    assert groups[middle.value.node].root is middle.value.node
    assert groups[last.value.node].root is last.value.node
