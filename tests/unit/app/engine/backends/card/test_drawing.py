from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("function", ["bits", "uniform", "normal"])
def test_any_count_of_the_catalogs_numbers(machine: Machine, function: str) -> None:
    key = np.array([-(2**62) + 12345, 2**61 + 7], np.int64)
    graph = graph_of("random", [key], shape=(7, 11), function=function)
    require_right(machine, graph, [key])
