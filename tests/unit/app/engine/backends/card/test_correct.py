"""Every step that rounds, against NumPy, above 2^-126 as lavapipe goes no lower."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.correct import divided, rooted
from app.engine.backends.card.functions import FUNCTIONS
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.target import Target, written_for
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array
from tests.helpers.card_graphs import graph_of
from tests.helpers.exact_cards import require_bits

EDGES = np.array(
    [0.0, -0.0, 1.0, -3.0, 7.0, 1e38, -1e38, 1e-30, np.inf, -np.inf, np.nan, 16777215.0],
    np.float32,
)


def patterns(seed: int, count: int) -> Array:
    """Random numbers of any exponent that keeps quotients in the normal range, and edges."""
    random = np.random.default_rng(seed)
    exponents = random.integers(67, 187, count, dtype=np.uint32) << np.uint32(23)
    bits = exponents | random.integers(0, 1 << 23, count, dtype=np.uint32)
    signs = random.integers(0, 2, count, dtype=np.uint32) << np.uint32(31)
    return np.concatenate([(bits | signs).view(np.float32), EDGES])


@pytest.mark.parametrize("seed", range(3))
def test_quotients(machine: Machine, seed: int) -> None:
    inputs = [patterns(seed, 500), patterns(seed + 100, 300)[:, None]]
    inputs[1][-5] = 1.0  # 1e-30 would leave the normal range below others
    graph = graph_of("formula", inputs, tree=call_formula("div"))
    require_bits(machine, graph, inputs, divides=False)


def test_roots(machine: Machine) -> None:
    for one in (np.abs(patterns(9, 20000)), patterns(8, 2000)):
        graph = graph_of("formula", [one], tree=call_formula("sqrt"))
        require_bits(machine, graph, [one], divides=False)


def test_cards_that_round_correctly_are_trusted() -> None:
    def length(divides: bool) -> int:
        with written_for(Target(divides=divides, ordered=True)):
            kernel = Kernel(1)
            x = kernel.load("float32", 0, 0)
            kernel.store(0, 0, FUNCTIONS["sqrt"](FUNCTIONS["div"](x, x)))
            return len(kernel.words())

    kernel = Kernel(1)
    x = kernel.load("float32", 0, 0)
    kernel.store(0, 0, rooted(divided(x, x)))
    assert length(False) == len(kernel.words())
    assert length(True) < length(False) / 3


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_by_bits(machine: Machine, name: str) -> None:
    edges = np.concatenate([EDGES, np.array([1e-40, -1e-40, 1e-45, 3e-39], np.float32)])
    inputs = [edges, edges[:, None]]
    graph = graph_of("formula", inputs, tree=call_formula(name))
    require_bits(machine, graph, inputs, divides=False)
