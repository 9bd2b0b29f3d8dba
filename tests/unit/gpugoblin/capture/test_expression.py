"""The order of nodes: operands first, each once, at any depth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.capture.expression import LITERAL, SCALAR, Expression, Value, in_order
from gpugoblin.catalog.spec import TensorSpec

SPEC = TensorSpec("float32", ())


def node(*operands: Expression) -> Expression:
    return Expression("x", tuple(Value(operand, 0) for operand in operands), (SPEC,))


@given(st.lists(st.lists(st.integers(0, 100), max_size=3), min_size=1, max_size=40), st.data())
def test_every_node_once_after_its_operands(shape: list[list[int]], data: st.DataObject) -> None:
    nodes: list[Expression] = []
    for operands in shape:
        nodes.append(node(*(nodes[i % len(nodes)] for i in operands if nodes)))
    wanted = data.draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=4))
    order = list(in_order(tuple(Value(last, 0) for last in wanted)))
    assert len(set(order)) == len(order)
    seen: set[Expression] = set()
    for found in order:
        assert {value.node for value in found.operands} <= seen
        seen.add(found)
    assert set(wanted) <= seen


def test_a_chain_of_any_length() -> None:
    last = node()
    for _ in range(50_000):
        last = node(last, last)
    assert len(list(in_order((Value(last, 0),)))) == 50_001


def test_nodes_are_equal_only_to_themselves() -> None:
    assert node() != node()
    assert Value(first := node(), 0) == Value(first, 0)
    assert Expression(LITERAL, (), (SPEC,)).elementwise
    assert Expression(SCALAR + "add", (), (SPEC,)).elementwise
    assert not Expression("matmul", (), (SPEC,)).elementwise
