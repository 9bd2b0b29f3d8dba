from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.formula_build import call_formula
from tests.helpers.card_graphs import graph_of, require_right

WIDE = np.array(
    [0.0, -0.0, 1.0, -1.5, 1e-30, 3e38, -3e38, 7.25, 0.1, np.inf, -np.inf, np.nan, 2.0**24 + 2],
    np.float32,
)


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_are_exact_at_any_distance(machine: Machine, name: str) -> None:
    inputs = [WIDE, WIDE[:, None]]
    graph = graph_of("formula", inputs, tree=call_formula(name))
    (result,) = require_right(machine, graph, inputs)
    function = np.mod if name == "mod" else np.fmod
    with np.errstate(all="ignore"):
        expected = function(WIDE.astype(np.float64), WIDE.astype(np.float64)[:, None])
    plain = np.abs(expected) >= 2.0**-126
    if name == "fmod":
        np.testing.assert_array_equal(result[plain], expected[plain].astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", ["floordiv", "mod", "fmod", "pow", "shl", "shr"])
def test_integers_where_hardware_is_silent(machine: Machine, name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = np.array([0, 1, -1, 2, -2, 7, 31, 64, info.min, info.max], dtype)
    inputs = [edges, edges[:, None]]
    require_right(machine, graph_of("formula", inputs, tree=call_formula(name)), inputs)


def test_casts_saturate(machine: Machine) -> None:
    for target in ("int32", "int64", "bool"):
        require_right(machine, graph_of("cast", [WIDE], dtype=target), [WIDE])
