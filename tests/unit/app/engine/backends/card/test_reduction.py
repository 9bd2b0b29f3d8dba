from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.reduction import identity
from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


@pytest.mark.parametrize("function", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize(("shape", "axes"), [((3, 33), (1,)), ((1100, 33), (0,))])
def test_ways_to_reduce(
    machine: Machine, function: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    data = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    require_right(machine, graph_of("reduce", [data], axes=axes, function=function), [data])


def test_long_sums_take_two_rounds(machine: Machine) -> None:
    data = np.random.default_rng(5).integers(-9, 9, (2, 40000)).astype(np.int32)
    require_right(machine, graph_of("reduce", [data], axes=(1,), function="sum"), [data])


def test_nan_is_the_largest_and_the_smallest(machine: Machine) -> None:
    data = np.array([[1.0, np.nan, 3.0], [np.nan, -1.0, 2.0]], np.float32)
    for function in ("max", "min"):
        graph = graph_of("reduce", [data], axes=(1,), function=function)
        (result,) = require_right(machine, graph, [data])
        assert np.isnan(result).all()


def test_what_changes_nothing() -> None:
    assert identity("max", "float32") == -np.inf
    assert identity("min", "int64") == 2**63 - 1
    assert identity("max", "int32") == -(2**31)
    assert (identity("any", "bool"), identity("all", "bool")) == (False, True)
    assert (identity("sum", "int32"), identity("prod", "int32")) == (0, 1)
