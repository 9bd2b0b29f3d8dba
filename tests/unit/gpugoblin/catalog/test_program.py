from __future__ import annotations

from gpugoblin.catalog.body_samples import body, one_formula
from gpugoblin.catalog.program import Graph, Node, specs_within
from gpugoblin.catalog.spec import TensorSpec

SPEC, OTHER = TensorSpec("float32", (3,)), TensorSpec("int32", ())


def test_specs_within_bodies() -> None:
    inner = body((SPEC, OTHER), (), (0,))
    attributes = (("if_false", inner), ("if_true", one_formula((SPEC, SPEC), "mul", (0, 1))))
    node = Node("cond", 1, attributes, (0, 0), (SPEC,))
    whole = Graph((TensorSpec("bool", ()),), (), (node,), (1,))
    assert len(node.bodies()) == 2
    found = list(specs_within(whole))
    assert found.count(OTHER) == 1
    assert found.count(SPEC) == 5
