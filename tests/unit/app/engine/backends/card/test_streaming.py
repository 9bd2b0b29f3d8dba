from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card import product
from app.engine.backends.card.emission import Emission
from app.engine.backends.card.product import Problem
from app.engine.backends.card.streaming import Shape, choose, fits, streamed
from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right

PLAIN = Shape(128, 128, 16)


def require_product(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int],
    across: tuple[bool, bool],
    shape: Shape,
    batch: tuple[int, ...] = (),
) -> np.ndarray:  # type: ignore[type-arg]
    m, n, k = sizes
    assert fits(Problem("float32", 1, m, n, k, across), shape)
    monkeypatch.setattr(product, "choose", lambda problem, shared_bytes: shape)
    random = np.random.default_rng(m)
    lefts, rights = ((k, m) if across[0] else (m, k)), ((n, k) if across[1] else (k, n))
    left = random.standard_normal((*batch, *lefts)).astype(np.float32)
    right = random.standard_normal((*batch, *rights)).astype(np.float32)
    graph = graph_of("matmul", [left, right], transpose_a=across[0], transpose_b=across[1])
    return require_right(machine, graph, [left, right])[0]


def test_plain_tiles_at_their_edges(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    require_product(machine, monkeypatch, (130, 140, 48), (False, True), PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("across", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [PLAIN, Shape(128, 256, 16), Shape(64, 128, 32)])
def test_every_layout(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    shape: Shape,
    across: tuple[bool, bool],
) -> None:
    """Deeper turns and wider tiles, within what a software card shares."""
    require_product(machine, monkeypatch, (132, 260, 64), across, shape)


@pytest.mark.slow
def test_batches_and_long_chains(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (64, 64, 4096 + 32)
    require_product(machine, monkeypatch, sizes, (False, False), PLAIN, (2,))


@pytest.mark.parametrize(
    "problem",
    [
        Problem("int32", 1, 128, 128, 16, (False, False)),
        Problem("float32", 1, 128, 128, 24, (False, False)),
        Problem("float32", 1, 128, 126, 16, (False, False)),
        Problem("float32", 1, 126, 128, 16, (True, False)),
        Problem("float32", 1, 16, 128, 16, (False, False)),
        Problem("float32", 1, 128, 128, 0, (False, False)),
    ],
)
def test_what_it_does_not_take(problem: Problem) -> None:
    assert not fits(problem, PLAIN)
    assert choose(problem, 1 << 20) is None


def test_choice_keeps_to_the_shared_memory() -> None:
    large = Problem("float32", 1, 8192, 8192, 8192, (False, False))
    small = Problem("float32", 1, 256, 256, 320, (False, False))
    assert choose(large, 48 * 1024) == Shape(256, 128, 32)
    assert choose(large, 32 * 1024) == PLAIN
    assert choose(small, 48 * 1024) == Shape(128, 64, 32)
    assert choose(large, 1024) is None


def test_tiles_that_threads_cannot_share() -> None:
    with pytest.raises(ValueError, match="64 by 8"):
        Shape(64, 128, 8)


def test_strips_cover_every_tile() -> None:
    """17 tile rows: two strips of 8, and one of 1."""
    stage = streamed(Problem("float32", 1, 2176, 132, 16, (False, False)), PLAIN)
    assert stage.groups == (34, 1, 1)
    assert Emission((stage,)).scratch_bytes == 0
