from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Constant, Graph


def graph() -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3, 4)))
    picks = builder.constant(np.array([2, 0], np.int32))
    values, indices = builder.add_many("topk", [x], axis=1, k=3)
    taken = builder.add("gather", [values, picks], axis=1)
    return builder.build([taken, indices])


def test_values_are_numbered_inputs_constants_outputs() -> None:
    found = graph()
    assert [str(spec) for spec in found.specs()] == [
        "float32[3, 4]",
        "int32[2]",
        "float32[3, 3]",
        "int64[3, 3]",
        "float32[3, 2]",
    ]
    assert [(first, node.operator) for first, node in found.numbered_nodes()] == [
        (2, "topk"),
        (4, "gather"),
    ]
    assert found.outputs == (4, 3)
    assert found.output_specs() == (found.specs()[4], found.specs()[3])


def test_a_graph_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph().outputs = ()  # type: ignore[misc]


def test_a_constant_is_a_read_only_array() -> None:
    constant = Constant(TensorSpec("int32", (2,)), np.array([5, -6], "<i4").tobytes())
    assert constant.array().tolist() == [5, -6]
    assert not constant.array().flags.writeable
