"""Constant folding: what depends on constants alone, computed once, here.

Owns: the bounds, so that folding never makes a graph that is much larger, or takes long. What is
counted or spread out (`iota`, `broadcast`) and what draws numbers stays as it is: it is regenerated
where it is used. The results are the reference's, bit for bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import DTYPES, AttrValue
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Constant

__all__ = ["MAX_FLOPS", "MAX_GROWTH_BYTES", "fold"]

MAX_FLOPS: Final = 1_000_000
MAX_GROWTH_BYTES: Final = 4096
"""A result may be so much larger than its operands together."""

_KEPT: Final = frozenset({"broadcast", "iota", "random"})


def fold(
    builder: GraphBuilder,
    operator: str,
    version: int | None,
    operands: tuple[int, ...],
    attributes: dict[str, AttrValue],
) -> tuple[int, ...] | None:
    """The constants that a node of constants gives; None where it stays a node."""
    sources = [builder.source(value) for value in operands]
    constants = [source for source in sources if isinstance(source, Constant)]
    if not operands or len(constants) != len(operands) or operator in _KEPT:
        return None
    declared = registry.get(operator, version)
    specs = [constant.spec for constant in constants]
    try:
        outputs = declared.infer(specs, attributes)
        cost = declared.cost(specs, outputs, attributes)
        size_bytes = sum(spec.nbytes for spec in outputs)
        room_bytes = sum(spec.nbytes for spec in specs) + MAX_GROWTH_BYTES
        if cost.flops > MAX_FLOPS or size_bytes > room_bytes:
            return None
        results = declared.reference([constant.array() for constant in constants], attributes)
    except GraphError:
        # A node that cannot run is the researcher's to see, when it runs.
        return None
    return tuple(
        builder.constant(np.ascontiguousarray(array, DTYPES[spec.dtype]).reshape(spec.shape))
        for array, spec in zip(results, outputs, strict=True)
    )
