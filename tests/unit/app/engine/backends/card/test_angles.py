from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.formula_build import call_formula
from tests.helpers.card_graphs import graph_of, require_right

EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 88.8, -104, 3e38, 1e-38], float)


def points() -> np.ndarray:  # type: ignore[type-arg]
    x = np.random.default_rng(15).uniform(-4, 4, 2000)
    return np.concatenate([x, x * 100, 10.0 ** (x * 9), EDGES]).astype(np.float32)


@pytest.mark.parametrize(
    "name",
    ["sin", "cos", "tan", "asin", "acos", "atan"],
)
def test_within_the_catalogs_bound(machine: Machine, name: str) -> None:
    values = points()
    require_right(machine, graph_of("formula", [values], tree=call_formula(name)), [values])


@pytest.mark.parametrize("name", ["atan2"])
def test_of_two(machine: Machine, name: str) -> None:
    values = points()
    inputs = [values, np.random.default_rng(16).permutation(values)]
    require_right(machine, graph_of("formula", inputs, tree=call_formula(name)), inputs)
