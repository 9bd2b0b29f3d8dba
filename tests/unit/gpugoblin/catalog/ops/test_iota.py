from __future__ import annotations

import pytest

from gpugoblin.catalog.ops.iota import IOTA
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode, encode


@pytest.mark.parametrize("count", [-1, 2**31 + 1])
def test_counts_are_bounded(count: int) -> None:
    with pytest.raises(GraphError, match="attribute_invalid"):
        IOTA.infer((), {"count": count, "dtype": "int32"})


def test_a_graph_without_inputs() -> None:
    builder = GraphBuilder()
    graph = builder.build([builder.add("iota", [], count=4)])
    assert decode(encode(graph)) == graph
    assert interpret(graph, [])[0].tolist() == [0, 1, 2, 3]
