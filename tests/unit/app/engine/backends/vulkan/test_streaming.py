from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.product import Problem
from app.engine.backends.vulkan.streaming import fits, streamed
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize(
    ("m", "n", "k", "across"),
    [
        (65, 132, 24, (False, False)),
        (72, 72, 8, (True, True)),
    ],
)
def test_edges_of_tiles(
    machine: Machine, m: int, n: int, k: int, across: tuple[bool, bool]
) -> None:
    generator = np.random.default_rng(m)
    left = generator.standard_normal((k, m) if across[0] else (m, k)).astype(np.float32)
    right = generator.standard_normal((n, k) if across[1] else (k, n)).astype(np.float32)
    assert fits(Problem("float32", 1, m, n, k, across))
    graph = graph_of("matmul", [left, right], transpose_a=across[0], transpose_b=across[1])
    require_right(machine, graph, [left, right])


@pytest.mark.slow
def test_batches_and_long_chains(machine: Machine) -> None:
    generator = np.random.default_rng(3)
    left = generator.standard_normal((2, 64, 4104)).astype(np.float32)
    right = generator.standard_normal((2, 4104, 64)).astype(np.float32)
    require_right(machine, graph_of("matmul", [left, right]), [left, right])


@pytest.mark.parametrize(
    "problem",
    [
        Problem("int32", 1, 128, 128, 8, (False, False)),
        Problem("float32", 1, 128, 128, 9, (False, False)),
        Problem("float32", 1, 128, 126, 8, (False, False)),
        Problem("float32", 1, 126, 128, 8, (True, False)),
        Problem("float32", 1, 16, 128, 8, (False, False)),
        Problem("float32", 1, 128, 128, 0, (False, False)),
    ],
)
def test_what_it_does_not_take(problem: Problem) -> None:
    assert not fits(problem)


def test_strips_cover_every_tile(machine: Machine) -> None:
    """17 tile rows: one strip of 16, and one of 1."""
    left = np.repeat(np.arange(17, dtype=np.float32), 128)[:, None] * np.ones(8, np.float32)
    right = np.ones((8, 132), np.float32)
    (result,) = require_right(machine, graph_of("matmul", [left, right]), [left, right])
    assert result[:, 131].tolist() == (left[:, 0] * 8).tolist()
    assert streamed(Problem("float32", 1, 2176, 132, 8, (False, False))).groups == (34, 1, 1)
