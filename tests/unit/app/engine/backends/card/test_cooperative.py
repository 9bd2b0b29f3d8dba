"""Tiles, turns and edges of the kernel on emulated matrices, and its modules as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.engine.backends.card import cooperative
from app.engine.backends.card.cooperative import cooperated
from app.engine.backends.card.emission import Emission
from app.engine.backends.card.fragments import LARGE, Blocking, Fragment
from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.card.product import Problem
from app.engine.backends.card.shortening import shortened
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.program import CardProgram
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.casting import cast_array, decoded
from tests.helpers.card_graphs import short_product
from tests.helpers.emulated_matrices import SUBGROUP, EmulatedKernel, EmulatedVectors
from tests.helpers.formulas import judge, knows

EIGHTS = Fragment(8, 8, 8)
SMALL = Blocking(32, 16, 16, (2, 2))
"""Two matrices for each of four subgroups, two instructions a turn."""
LAYOUTS = [(False, False), (True, False), (False, True), (True, True)]


def require_product(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int],
    across: tuple[bool, bool],
    form: str = "float16",
    batch: tuple[int, ...] = (),
) -> None:
    monkeypatch.setattr(cooperative, "MatrixKernel", EmulatedKernel)
    monkeypatch.setattr(cooperative, "Vectors", EmulatedVectors)
    m, n, k = sizes
    graph = short_product(m, n, k, across, form, batch)
    problem = Problem("float32", int(np.prod(batch)), m, n, k, across)
    stage = cooperated(problem, form, SMALL, EIGHTS, SUBGROUP)
    layout = lay_out(shortened(require_served(graph)), lambda node, specs: Emission((stage,)))
    random = np.random.default_rng(m * n + k)
    given = [
        cast_array(random.standard_normal(spec.shape).astype(np.float32), form)
        for spec in graph.inputs
    ]
    out = np.full((*batch, m, n), np.nan, np.float32)
    program = CardProgram(machine, layout)
    pool = Pool(1)
    try:
        program.run(given, [out], np.empty(0, np.uint8), Context(pool))
    finally:
        program.release()
        pool.close()
    wide = [decoded(array).astype(np.float64) for array in given]
    left, right = (
        np.swapaxes(array, -1, -2) if turned else array
        for array, turned in zip(wide, across, strict=True)
    )
    limit = 2.0**-23 * k * (np.abs(left) @ np.abs(right))
    assert (np.abs(out - left @ right) <= limit).all()


@pytest.mark.parametrize("across", LAYOUTS)
def test_every_layout(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, across: tuple[bool, bool]
) -> None:
    """Whole tiles and such as reach beyond: 40 is two tiles of rows and a half, of columns too."""
    require_product(machine, monkeypatch, (40, 40, 32), across, "bfloat16")


def test_edges_that_no_matrix_fits_and_terms_that_no_turn_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_product(machine, monkeypatch, (35, 33, 40), (False, True))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["float16", "bfloat16"])
@pytest.mark.parametrize("across", LAYOUTS)
@pytest.mark.parametrize("sizes", [(64, 32, 16), (72, 24, 8), (32, 48, 72)])
def test_more_shapes(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int],
    across: tuple[bool, bool],
    form: str,
) -> None:
    require_product(machine, monkeypatch, sizes, across, form, (3,))


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(256, 256, 128), (200, 130, 72)])
def test_modules_are_valid(tmp_path: Path, form: str, sizes: tuple[int, int, int]) -> None:
    if not knows(tmp_path, form):
        pytest.skip(f"no spirv-val here knows matrices of {form}")
    for across in LAYOUTS:
        problem = Problem("float32", 2, *sizes, across)
        stage = cooperated(problem, form, LARGE, Fragment(16, 16, 16), 32)
        assert judge(stage.words, tmp_path) == ""


def test_extensions_are_declared_where_they_are_needed() -> None:
    problem = Problem("float32", 1, 128, 128, 64, (False, False))
    words = {
        form: cooperated(problem, form, LARGE, Fragment(16, 16, 16), 32).words
        for form in ("float16", "bfloat16")
    }
    for form, module in words.items():
        assert b"SPV_KHR_cooperative_matrix" in module
        assert (b"SPV_KHR_bfloat16" in module) == (form == "bfloat16")
