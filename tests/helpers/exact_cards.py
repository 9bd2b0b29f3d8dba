"""Class `exact` on an opened card of Vulkan, bit for bit. Owns the comparison.

It asks nobody whether the card keeps small numbers: a test that stays above 2^-126 needs not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.engine.backends.card.layout import has_floats, lay_out, require_served
from app.engine.backends.card.target import Target
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.ir import Graph

if TYPE_CHECKING:
    from app.engine.backends.vulkan.machine import Machine

__all__ = ["require_bits"]


def require_bits(
    machine: Machine, graph: Graph, inputs: Sequence[Array], *, divides: bool = True
) -> None:
    expanded = require_served(graph, "exact")
    assert has_floats(expanded)
    card = Target(divides=divides, ordered=True)
    from app.engine.backends.vulkan.program import CardProgram

    program = CardProgram(machine, lay_out(expanded, lambda node, specs: None, card))
    outputs = [np.empty(spec.shape, DTYPES[spec.dtype]) for spec in graph.output_specs()]
    pool = Pool(1)
    try:
        given = [np.ascontiguousarray(array) for array in inputs]
        program.run(given, outputs, np.empty(0, np.uint8), Context(pool))
    finally:
        program.release()
        pool.close()
    for found, wanted in zip(outputs, interpret_exact(graph, inputs), strict=True):
        numbers = ~np.isnan(wanted) if wanted.dtype == np.float32 else np.full(wanted.shape, True)
        np.testing.assert_array_equal(np.isnan(found[~numbers]), True)
        assert found[numbers].tobytes() == wanted[numbers].tobytes()
