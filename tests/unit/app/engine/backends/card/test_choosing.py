from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_first_of_equals_in_rows_longer_than_a_group(machine: Machine, function: str) -> None:
    data = np.random.default_rng(2).integers(0, 3, (2, 600)).astype(np.int32)
    require_right(machine, graph_of("reduce_arg", [data], axis=1, function=function), [data])


@pytest.mark.parametrize("largest", [True, False])
def test_ranks_among_equals_and_nan(machine: Machine, largest: bool) -> None:
    data = np.array([[2, np.nan, 2, -np.inf, np.nan, 0, 2]], np.float32).T
    require_right(machine, graph_of("topk", [data], axis=0, k=6, largest=largest), [data])


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_places_in_a_line(machine: Machine, ordered: bool, right: bool) -> None:
    line = np.random.default_rng(3).integers(0, 9, 300).astype(np.float32)
    line[7] = np.nan
    line = np.sort(line) if ordered else line
    values = np.array([-1, 0, 4, 8, 9, np.nan, np.inf], np.float32)
    require_right(machine, graph_of("searchsorted", [line, values], right=right), [line, values])
