"""Comparing a lowered graph with the program that it came from.

Owns: the measure (the largest difference, over the largest number of that result) and running a
graph on the program's own tensors. Must not: decide what is good enough for anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpugoblin.capture.torch.library import numpy_of
from gpugoblin.capture.torch.lowering import Input, LoweredGraph
from gpugoblin.catalog import registry
from gpugoblin.catalog.rules import ints_attribute
from gpugoblin.catalog.spec import DTYPES, Array, Attributes, Reference, TensorSpec
from gpugoblin.graph.interpret import interpret

__all__ = ["TOLERANCE", "difference", "graph_inputs", "joined", "run_graph"]

TOLERANCE: Final = 1e-5
"""Of the largest number of a result."""


def graph_inputs(
    inputs: Sequence[Input], specs: Sequence[TensorSpec], tensors: dict[tuple[str, str], Any]
) -> list[Array]:
    """One array for each input of a graph, from tensors by (kind, name)."""
    found = []
    for one, spec in zip(inputs, specs, strict=True):
        if one.data is not None:
            found.append(one.data)
        elif one.kind == "key":
            found.append(np.array([0, 0], np.int64))
        else:
            array = numpy_of(tensors[one.kind, one.name])
            if one.part:
                array = np.ascontiguousarray(getattr(array, one.part))
            found.append(array.astype(DTYPES[spec.dtype], copy=False))
    return found


def run_graph(
    lowered: LoweredGraph, tensors: dict[tuple[str, str], Any], *, quick: bool = False
) -> list[Array]:
    """The program's results by the reference interpreter, complex ones joined.

    Args:
        quick: products of float32 are made in float32, as eager makes them, and permuted arrays are
            views. A large weight is then neither widened nor copied, which is most of the time.
    """
    arrays = graph_inputs(lowered.inputs, lowered.graph.inputs, tensors)
    found = interpret(lowered.graph, arrays, _QUICK if quick else {})
    return joined(found, lowered.outputs)


def _product(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    if inputs[0].dtype != np.float32:
        return registry.get("matmul", 1).reference(inputs, attributes)
    turned = (attributes["transpose_a"], attributes["transpose_b"])
    a, b = (np.swapaxes(one, -1, -2) if t else one for one, t in zip(inputs, turned, strict=True))
    with np.errstate(all="ignore"):
        return (np.matmul(a, b),)


def _permuted(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    return (np.transpose(inputs[0], ints_attribute(attributes, "axes")),)


_QUICK: Final[dict[str, Reference]] = {"matmul": _product, "permute": _permuted}


def joined(arrays: Sequence[Array], counts: Sequence[int]) -> list[Array]:
    """Halves of complex numbers put together."""
    remaining = iter(arrays)
    found = []
    for count in counts:
        first = next(remaining)
        found.append(first if count == 1 else first + 1j * next(remaining))
    return found


def difference(found: Array, expected: Array) -> float:
    """The largest difference over the largest number; infinity for other shapes, or where only one
    side is finite. Integers and bools differ by infinity or not at all."""
    if found.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "iub":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    finite = np.isfinite(expected)
    with np.errstate(all="ignore"):
        same = np.array_equal(
            np.where(finite, 0, expected), np.where(finite, 0, found), equal_nan=True
        )
    if not same:
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.abs(expected[finite]).max())
    gap = float(np.abs(expected[finite].astype(found.dtype) - found[finite]).max())
    return gap / scale if scale else gap
