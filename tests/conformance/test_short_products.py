"""Products of operands that a class rounds to 16 bits, on every backend that is there.

Cards with matrix units multiply them there: the sizes are those at which tiles, turns and vectors
of memory end, and some that no unit takes.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.graph.classes import in_class
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.conformance.backends import CPU, CUDA, NO_CUDA, VULKAN, Child
from tests.helpers.card_graphs import graph_of

BACKENDS = [
    pytest.param(CPU, id="cpu"),
    pytest.param(VULKAN, id="vulkan"),
    *([] if NO_CUDA else [pytest.param(CUDA, id="cuda")]),
]
LAYOUTS = [(False, False), (True, False), (False, True), (True, True)]
CASES = [
    *[("bfloat16", across, (65, 72, 40)) for across in LAYOUTS],
    *[("float16", across, (48, 48, 64)) for across in LAYOUTS],
    ("bfloat16", (False, True), (144, 48, 32)),
    ("float16", (True, False), (40, 33, 136)),
    ("bfloat16", (False, False), (50, 50, 50)),
]
"""Fewer than 64 rows, columns or whole turns: large tiles take software cards long to compile."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("form", "across", "sizes"), CASES)
def test_product(
    backend: Child, form: str, across: tuple[bool, bool], sizes: tuple[int, int, int]
) -> None:
    require_product(backend, form, across, sizes, ())


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches(backend: Child) -> None:
    require_product(backend, "bfloat16", (False, True), (72, 48, 64), (2, 3))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_infinity_and_nan_stay_in_their_rows_and_columns(backend: Child, form: str) -> None:
    """Also behind the last term, where a tile goes on."""
    left, right = np.ones((40, 40), np.float32), np.ones((40, 40), np.float32)
    left[3, 39], right[39, 5] = np.inf, np.nan
    graph = in_class(graph_of("matmul", [left, right]), form)
    (found,) = backend.evaluate(graph, [left, right], form)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, left @ right)


def require_product(
    backend: Child,
    form: str,
    across: tuple[bool, bool],
    sizes: tuple[int, int, int],
    batch: tuple[int, ...],
) -> None:
    m, n, k = sizes
    random = np.random.default_rng(m + n + k)
    lefts, rights = ((k, m) if across[0] else (m, k)), ((n, k) if across[1] else (k, n))
    inputs = [
        random.standard_normal((*batch, *shape)).astype(np.float32) for shape in (lefts, rights)
    ]
    plain = graph_of("matmul", inputs, transpose_a=across[0], transpose_b=across[1])
    graph = in_class(plain, form)
    exact, bounds = error_bounds(graph, inputs)
    (found,) = backend.evaluate(graph, inputs, form)
    wrong = ~agrees(found, exact[0], bounds[0])
    assert not wrong.any(), (
        f"{wrong.sum()} of {wrong.size}: {found[wrong].flat[0]!r}, "
        f"the reference {exact[0][wrong].flat[0]!r}"
    )
