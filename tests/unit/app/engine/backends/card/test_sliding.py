from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_with_gaps_and_groups(machine: Machine, groups: int) -> None:
    random = np.random.default_rng(7)
    data = random.standard_normal((2, 4, 7, 6)).astype(np.float32)
    weights = random.standard_normal((6, 4 // groups, 3, 2)).astype(np.float32)
    graph = graph_of(
        "conv",
        [data, weights],
        stride=(2, 1),
        dilation=(1, 2),
        low=(1, -1),
        high=(2, 0),
        between=(1, 0),
        groups=groups,
    )
    require_right(machine, graph, [data, weights])


@pytest.mark.parametrize("function", ["max", "sum"])
def test_pools_whose_windows_reach_outside(machine: Machine, function: str) -> None:
    data = np.random.default_rng(8).standard_normal((2, 5, 7)).astype(np.float32)
    data[0, 2, 3] = np.nan
    graph = graph_of(
        "pool",
        [data],
        function=function,
        window=(3, 2),
        stride=(2, 2),
        dilation=(1, 3),
        low=(2, 0),
        high=(1, 3),
    )
    require_right(machine, graph, [data])
