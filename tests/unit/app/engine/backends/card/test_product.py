from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 15, 33)])
def test_small_tiles_and_their_edges(machine: Machine, m: int, n: int, k: int, dtype: str) -> None:
    random = np.random.default_rng(12)
    left = (random.standard_normal((2, k, m)) * 1e5).astype(dtype)
    right = (random.standard_normal((2, k, n)) * 1e5).astype(dtype)
    require_right(machine, graph_of("matmul", [left, right], transpose_a=True), [left, right])


def test_middle_tiles(machine: Machine) -> None:
    random = np.random.default_rng(13)
    left = random.standard_normal((65, 5)).astype(np.float32)
    right = random.standard_normal((67, 5)).astype(np.float32)
    require_right(machine, graph_of("matmul", [left, right], transpose_b=True), [left, right])


def test_chains_longer_than_a_block(machine: Machine) -> None:
    left = np.full((1, 4099), 3, np.float32)
    right = np.full((4099, 1), 5, np.float32)
    (result,) = require_right(machine, graph_of("matmul", [left, right]), [left, right])
    assert result.item() == 15 * 4099
