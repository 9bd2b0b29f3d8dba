from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.elementwise import chain
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.formula_build import call_formula
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 8), (3, 1)),
        ((257,), (257,)),
        ((1, 5), (7, 1)),
        ((), (3,)),
        ((4, 1, 4), (4, 1)),
        ((260,), ()),
    ],
)
def test_broadcast(machine: Machine, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    random = np.random.default_rng(14)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in (left, right)]
    require_right(machine, graph_of("formula", inputs, tree=call_formula("sub")), inputs)


def test_vectors_of_every_dtype(machine: Machine) -> None:
    for dtype in ("float32", "int32", "int64", "bool"):
        inputs = [np.arange(64).astype(dtype), np.arange(64)[::-1].astype(dtype)]
        require_right(machine, graph_of("formula", inputs, tree=call_formula("ne")), inputs)


def test_nothing_for_nothing() -> None:
    graph = graph_of("formula", [np.empty((0, 3), np.float32)], tree=call_formula("abs"))
    assert chain(graph.nodes, [1], [0], [1], graph.specs()) == []
