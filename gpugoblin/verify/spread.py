"""How far honest results of one graph lie apart: measured, on inputs that are verified.

Owns: the measuring, and the tolerance that is made from it. Must not: decide about a result
(`compare` does), or believe one that was returned.

The proven bound of `graph.numeric` carries the worst case of each operator through the whole graph,
and for a gradient it is mostly infinite. Here the graph is evaluated several times instead, and
each operator's result is moved at random within what that operator alone may be off, its declared
bound (`Tolerance.propagate` with exact operands). The moves go through the rest of the graph as
numbers, so they cancel, and meet edges, as honest roundings do. A sum of h terms is moved within
1 / sqrt(h) of its bound: the bound has every rounding at its largest with one sign, while roundings
without a common sign add up to u sqrt(sum of the squares of the partial sums) (N. Higham and
T. Mary, A new approach to probabilistic rounding error analysis, 2019), and no partial sum is
larger than the sum of absolute values that the bound is made of.

A tolerance is a number for each block of an output (a flat gradient holds tensors of many sizes),
in units of the root mean square of that block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.casting import decoded
from gpugoblin.catalog.rounding import MATMUL_BLOCK, REDUCE_BLOCK, TINY, chain
from gpugoblin.catalog.spec import Array, Operator, TensorSpec
from gpugoblin.graph.check import check
from gpugoblin.graph.interpret import last_uses, require_inputs
from gpugoblin.graph.ir import Graph, Node

__all__ = [
    "LARGEST",
    "SAFETY",
    "Tolerance",
    "blocks_of",
    "excess",
    "is_close_to",
    "measure",
    "shares_of",
    "usable",
    "widened",
]

Tolerance = tuple[tuple[float, ...], ...]
"""For each output, for each of its blocks: what is allowed, in units of the block's root mean
square. An output that is no float has none."""

SAFETY: Final = 4.0
LARGEST: Final = 2e-3
"""No tolerance is used beyond this: a fifth of a hundredth, which must always be caught."""
_VARIANTS: Final = 4
_BLOCKS: Final = 64
_BLOCK_ELEMENTS: Final = 64
_LEAST: Final = 8 * 2.0**-24
_UNBOUNDED: Final = 2.0**-20
_TINY_64: Final = 2.0**-1022
_SUMS: Final = {
    "matmul": MATMUL_BLOCK,
    "conv": MATMUL_BLOCK,
    "grouped_matmul": MATMUL_BLOCK,
    "grouped_outer": MATMUL_BLOCK,
    "reduce": REDUCE_BLOCK,
}


def blocks_of(count: int) -> Array:
    """Where the blocks of an output of `count` elements begin."""
    blocks = min(_BLOCKS, max(1, count // _BLOCK_ELEMENTS))
    return np.arange(blocks) * count // blocks


def _floats(array: Array) -> Array | None:
    array = decoded(array)
    return array.astype(np.float64).reshape(-1) if array.dtype.kind == "f" else None


def _sizes(flat: Array, starts: Array) -> Array:
    """The root mean square of each block's finite elements.

    In units of the largest one: the squares of float64 numbers may be infinite, which would excuse
    any error, or vanish.
    """
    good = np.isfinite(flat)
    finite = np.where(good, flat, 0.0)
    largest = np.maximum.reduceat(np.abs(finite), starts)
    unit = np.where(largest > 0, largest, 1.0)
    shares = finite / np.repeat(unit, np.diff(starts, append=flat.size))
    squares = np.add.reduceat(shares**2, starts)
    counts = np.maximum(1, np.add.reduceat(good.astype(int), starts))
    found: Array = unit * np.sqrt(squares / counts)
    return found


def _distance(one: Array, other: Array) -> Array:
    """Their distance; 0 where both are the same infinity or NaN, infinite where one of them is."""
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


@dataclass(frozen=True, slots=True)
class _Moved:
    """An operator and how far its own results may be moved."""

    operator: Operator
    share: float

    def results(
        self, operands: Sequence[Array], node: Node, random: np.random.Generator | None
    ) -> list[Array]:
        """The operator's results, moved where `random` says so."""
        results = list(self.operator.reference(operands, node.attrs))
        propagate = self.operator.tolerance.propagate
        if random is None or propagate is None:
            return results
        errors = propagate(operands, [None] * len(operands), results, node.attrs)
        return [
            result if error is None else self._moved(result, error, random)
            for result, error in zip(results, errors, strict=True)
        ]

    def _moved(self, result: Array, error: Array, random: np.random.Generator) -> Array:
        if result.dtype.kind != "f":
            return result
        with np.errstate(all="ignore"):
            bound = np.where(np.isfinite(error), error * self.share, np.abs(result) * _UNBOUNDED)
            step = random.uniform(-1.0, 1.0, result.shape) * bound
            moved: Array = (result + step).astype(result.dtype)
        return np.where(np.isfinite(moved), moved, result)


def _how(node: Node, specs: Sequence[TensorSpec]) -> _Moved:
    operator = registry.get(node.operator, node.version)
    block = _SUMS.get(node.operator)
    if block is None:
        return _Moved(operator, 1.0)
    taken = [specs[value] for value in node.inputs]
    flops = operator.cost(taken, node.outputs, node.attrs).flops
    terms = flops // max(1, 2 * sum(spec.count for spec in node.outputs))
    return _Moved(operator, 1.0 / math.sqrt(max(1, chain(terms, block))))


def _evaluate(
    graph: Graph, inputs: Sequence[Array], random: np.random.Generator | None
) -> list[Array]:
    specs, last = graph.specs(), last_uses(graph)
    values: dict[int, Array] = dict(enumerate(inputs))
    for place, constant in enumerate(graph.constants):
        values[len(graph.inputs) + place] = constant.array()
    for step, (first, node) in enumerate(graph.numbered_nodes()):
        operands = [values[value] for value in node.inputs]
        results = _how(node, specs).results(operands, node, random)
        values.update((first + place, result) for place, result in enumerate(results))
        for value in (*node.inputs, *range(first, first + len(results))):
            if last.get(value, step) <= step:
                values.pop(value, None)
    return [values[value] for value in graph.outputs]


def measure(graph: Graph, inputs: Sequence[Array], own: Sequence[Array] | None) -> Tolerance:
    """The tolerance of a graph, on one set of verified inputs.

    The draws are always the same: whoever measures on these inputs finds these numbers.

    Args:
        own: the validator's result on them; None where there is none. Never one that was returned:
            it would make its own tolerance.

    Returns:
        `SAFETY` times the largest distance of a block's elements from the reference over all
        variants, the validator's own result one of them. Infinite where they differ in what is a
        number at all, or where the block is zero and a variant's is not.

    Raises:
        GraphError: as `interpret`.
    """
    check(graph)
    require_inputs(graph, inputs)
    exact = _evaluate(graph, inputs, None)
    found = [np.zeros(0)] * len(exact)
    for seed in range(_VARIANTS + 1):
        if seed > 0:
            moved: Sequence[Array] = _evaluate(graph, inputs, np.random.default_rng(seed))
        elif own is not None:
            moved = own
        else:
            continue
        for number, (one, other) in enumerate(zip(exact, moved, strict=True)):
            first, second = _floats(one), _floats(other)
            if first is None or second is None or first.size == 0:
                continue
            starts = blocks_of(first.size)
            far = np.maximum.reduceat(_distance(first, second), starts)
            with np.errstate(all="ignore"):
                share = far / _sizes(first, starts)
            share = np.where(far == 0, 0.0, np.where(np.isnan(share), np.inf, share))
            before = found[number]
            found[number] = np.maximum(before, share) if before.size else share
    return tuple(tuple(map(float, np.maximum(SAFETY * one, _LEAST))) for one in found)


def shares_of(own: Array, other: Array, allowed: Sequence[float]) -> Array | None:
    """The signed distance of a result's elements, flat, in units of what is allowed, within 1.

    Args:
        own: the reference; its blocks have the units. allowed: for each block, or one for all.

    Returns:
        float64; None where there are no floats to compare.
    """
    first, second = _floats(own), _floats(other)
    if first is None or second is None or first.size == 0:
        return None
    starts = blocks_of(first.size)
    limits = np.broadcast_to(np.array(allowed), starts.shape) * _sizes(first, starts)
    units = np.repeat(limits, np.diff(starts, append=first.size))
    with np.errstate(all="ignore"):
        shares = (second - first) / units
    found: Array = np.clip(np.where(np.isfinite(shares), shares, 0.0), -1.0, 1.0)
    return found


def is_close_to(output: Array, bound: Array) -> bool:
    """Whether a bound admits nowhere more than `LARGEST` of the size of an output's block.

    Args:
        bound: float64, broadcasts against `output`.
    """
    flat = _floats(output)
    if flat is None or flat.size == 0:
        return True
    starts = blocks_of(flat.size)
    spread = np.broadcast_to(bound, output.shape).reshape(-1)
    return bool(np.all(np.maximum.reduceat(spread, starts) <= LARGEST * _sizes(flat, starts)))


def usable(tolerance: Tolerance) -> Tolerance:
    """The same with nothing above `LARGEST`: what results are accepted by, and what is stored."""
    return tuple(tuple(min(one, LARGEST) for one in output) for output in tolerance)


def widened(one: Tolerance, other: Tolerance) -> Tolerance:
    """The larger of each two; `other` where `one` is of another graph, or of none."""
    if [len(output) for output in one] != [len(output) for output in other]:
        return other
    return tuple(tuple(map(max, first, second)) for first, second in zip(one, other, strict=True))


def excess(tolerance: Tolerance, own: Sequence[Array], other: Sequence[Array]) -> float:
    """The largest distance of two results in units of what is allowed; above 1 is off.

    A block has the smaller of its two sizes, so that no result makes room for itself. What lies
    apart by no normal number is equal: results so small may be flushed to zero. Infinite where the
    tolerance is not of these outputs, or where outputs that are no floats
    differ.
    """
    worst = 0.0
    if len(tolerance) != len(own):
        return math.inf
    for allowed, one, two in zip(tolerance, own, other, strict=True):
        first, second = _floats(one), _floats(two)
        if first is None or second is None:
            if not np.array_equal(one, two):
                return math.inf
            continue
        if first.size == 0:
            continue
        starts = blocks_of(first.size)
        if len(allowed) != starts.size:
            return math.inf
        far = np.maximum.reduceat(_distance(first, second), starts)
        far = np.where(far <= (_TINY_64 if one.dtype == np.float64 else TINY), 0.0, far)
        size = np.minimum(_sizes(first, starts), _sizes(second, starts))
        with np.errstate(all="ignore"):
            share = far / (np.array(allowed) * size)
        share = np.where((far == 0) | np.isinf(allowed), 0.0, share)
        worst = max(worst, float(np.where(np.isnan(share), np.inf, share).max()))
    return worst
