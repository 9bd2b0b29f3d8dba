from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


def numbers(*shape: int, dtype: str = "int32") -> np.ndarray:  # type: ignore[type-arg]
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("permute", {"axes": (2, 0, 1)}),
        ("slice", {"start": (1, 0, 2), "stop": (3, 5, 7), "step": (1, 2, 3)}),
        ("flip", {"axes": (0, 2)}),
        ("broadcast", {"shape": (2, 3, 5, 7)}),
        ("cast", {"dtype": "float32"}),
    ],
)
def test_moves_of_one_input(machine: Machine, operator: str, attributes: dict[str, object]) -> None:
    data = numbers(3, 5, 7)
    require_right(machine, graph_of(operator, [data], **attributes), [data])


def test_bits_of_nan_are_kept(machine: Machine) -> None:
    data = np.array([0x7FC01234, 0xFF812345, 0x80000000, 1], np.uint32).view(np.float32)
    (result,) = require_right(machine, graph_of("flip", [data], axes=(0,)), [data])
    assert result.view(np.uint32).tolist() == data.view(np.uint32)[::-1].tolist()


def test_parts_of_many(machine: Machine) -> None:
    parts = [numbers(2, 0, 3), numbers(2, 300, 3), numbers(2, 1, 3)]
    require_right(machine, graph_of("concat", parts, axis=1), parts)


def test_placing(machine: Machine) -> None:
    data, value = numbers(3, 2, dtype="int64"), np.array(-7, np.int64)
    pad = graph_of("pad", [data, value], low=(2, 0), high=(0, 3), between=(1, 2))
    require_right(machine, pad, [data, value])
    update = numbers(2, 1, dtype="int64") - 50
    graph = graph_of("update_slice", [data, update], start=(0, 1), step=(2, 1))
    require_right(machine, graph, [data, update])
