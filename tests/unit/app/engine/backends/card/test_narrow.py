from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.narrow import NARROW, RAW, held
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import DTYPES
from tests.helpers.card_graphs import graph_of, require_right, run_graph


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_survives(machine: Machine, dtype: str) -> None:
    """All 65,536 patterns, widened; then rounded again, in vectors and one by one."""
    patterns = np.arange(65536, dtype=np.uint16).view(DTYPES[dtype])
    wide = cast_array(patterns, "float32")
    (found,) = run_graph(machine, graph_of("cast", [patterns], dtype="float32"), [patterns])
    plain = ~(np.abs(wide) < 2.0**-126)  # which a driver may take for zero
    np.testing.assert_array_equal(found[plain], wide[plain])
    for part in (wide[plain][: plain.sum() // 8 * 8], wide[plain][:1001]):
        (short,) = run_graph(machine, graph_of("cast", [part], dtype=dtype), [part])
        back, numbers = cast_array(short, "float32"), ~np.isnan(part)
        np.testing.assert_array_equal(np.isnan(back), ~numbers)
        np.testing.assert_array_equal(back[numbers], part[numbers])


def test_numbers_are_rounded_to_even(machine: Machine) -> None:
    random = np.random.default_rng(5)
    data = (random.standard_normal(4096) * 10.0 ** random.integers(-7, 6, 4096)).astype(np.float32)
    for dtype in ("float16", "bfloat16"):
        (short,) = run_graph(machine, graph_of("cast", [data], dtype=dtype), [data])
        assert short.tobytes() == cast_array(data, dtype).tobytes()


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_whole_numbers_wrap_after_each_function(machine: Machine, dtype: str) -> None:
    info = np.iinfo(dtype)
    data = np.array([info.min, info.min + 1, 0, 1, 3, info.max - 1, info.max], dtype)
    build = FormulaBuilder()
    x, y = build.input(0), build.input(1)
    tree = build.build(build.call("shr", build.call("mul", build.call("add", x, y), y), x))
    inputs = [data, data[:, None]]
    require_right(machine, graph_of("formula", inputs, tree=tree), inputs)


def test_what_holds_them() -> None:
    assert {held(dtype) for dtype in NARROW} == {"float32", "int32"}
    assert set(RAW) >= NARROW
