from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("function", ["set", "add", "min", "max"])
def test_updates_are_applied_in_order(machine: Machine, function: str) -> None:
    random = np.random.default_rng(6)
    data = random.standard_normal((2, 3, 4)).astype(np.float32)
    indices = random.integers(0, 3, (5, 2)).astype(np.int64)
    updates = random.standard_normal((2, 5, 2, 4)).astype(np.float32)
    graph = graph_of("scatter", [data, indices, updates], axis=1, function=function)
    require_right(machine, graph, [data, indices, updates])


def test_rows_of_a_table(machine: Machine) -> None:
    data = np.arange(600, dtype=np.int64).reshape(2, 100, 3)
    indices = np.array([99, 0, 5, 5], np.int32)
    require_right(machine, graph_of("gather", [data, indices], axis=1), [data, indices])
