from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("function", ["sum", "max"])
def test_rows_of_more_than_one_tile(machine: Machine, function: str, reverse: bool) -> None:
    data = np.random.default_rng(10).integers(-3, 4, (2, 2100)).astype(np.int32)
    graph = graph_of("scan_reduce", [data], axis=1, function=function, reverse=reverse)
    require_right(machine, graph, [data])


def test_axis_that_is_not_the_last(machine: Machine) -> None:
    data = np.random.default_rng(11).standard_normal((9, 5)).astype(np.float32)
    require_right(machine, graph_of("scan_reduce", [data], axis=0, function="sum"), [data])
