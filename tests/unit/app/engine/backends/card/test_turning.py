from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.turning import turn
from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
@pytest.mark.parametrize("shape", [(33, 65), (16, 40)])
def test_transposition(machine: Machine, shape: tuple[int, ...], dtype: str) -> None:
    data = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    require_right(machine, graph_of("permute", [data], axes=(1, 0)), [data])


def test_axes_around_the_turned_ones(machine: Machine) -> None:
    data = np.arange(2 * 33 * 3 * 17, dtype=np.int32).reshape(2, 33, 3, 17)
    require_right(machine, graph_of("permute", [data], axes=(2, 0, 3, 1)), [data])


def test_what_it_leaves_to_others() -> None:
    assert turn("uint32", (64, 64), (64, 1), (64, 1)) is None
    assert turn("uint32", (64, 4), (1, 64), (4, 1)) is None
    assert turn("uint32", (64, 64), (2, 128), (64, 1)) is None
    assert turn("uint32", (64, 64), (1, 64), (64, 1)) is not None
