"""How far two honest evaluations of a graph may lie apart in class `float32`.

Owns: carrying the operators' error bounds through a graph. The bounds are proven, not fitted: an
honest result never exceeds them, however the sums are ordered within what `catalog/rounding.py`
asks of a backend. Where a discontinuous operator (a comparison, floor, argmax, a cast to integers)
meets operands closer to its edge than their errors, both answers are admissible, and an element
that nothing bounds has the error infinity.

This evaluates the reference beside the bounds, which costs several times the graph itself: look for
bit-equal results first, and ask here about those that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gpugoblin.catalog import registry
from gpugoblin.catalog.casting import decoded
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.check import check
from gpugoblin.graph.interpret import require_inputs, run_nodes
from gpugoblin.graph.ir import Graph

__all__ = ["Bound", "agrees", "allowed", "error_bounds", "tolerance"]

Bound = npt.NDArray[np.float64]


def error_bounds(
    graph: Graph, inputs: Sequence[Array]
) -> tuple[tuple[Array, ...], tuple[Bound, ...]]:
    """The reference outputs, and how far an honest evaluation may lie from each.

    Returns:
        (outputs as `interpret` gives them, float64 arrays that broadcast against them; 0 where the
        result must be equal).

    Raises:
        GraphError: as `interpret`.
    """
    check(graph)
    require_inputs(graph, inputs)
    values: dict[int, Array] = {}
    errors: dict[int, Array | None] = {}
    for first, node in run_nodes(graph, inputs, values):
        operator = registry.get(node.operator, node.version)
        operands = [values[value] for value in node.inputs]
        carried = [errors.get(value) for value in node.inputs]
        results = [values[first + output] for output in range(len(node.outputs))]
        propagate = operator.tolerance.propagate
        if propagate is not None:
            found = propagate(operands, carried, results, node.attrs)
            errors.update((first + output, error) for output, error in enumerate(found))
    outputs = tuple(np.array(values[value], order="C") for value in graph.outputs)
    return outputs, tuple(_bound(errors.get(value)) for value in graph.outputs)


def allowed(
    graph: Graph, inputs: Sequence[Array], reference_outputs: Sequence[Array]
) -> tuple[Bound, ...]:
    """How far another honest result may lie from `reference_outputs`, themselves the result of one
    honest float32 evaluation (the validator's).

    The exact result is known within the reference's own rounding, so the bound is the honest error
    plus the distance of `reference_outputs` from it, at most twice the honest error.

    Returns:
        one float64 array an output, of its shape or broadcasting against it: absolute; 0 where
        results must be equal, infinity where any is admissible.

    Raises:
        GraphError: as `interpret`; graph_outputs_mismatch.
    """
    exact, bounds = error_bounds(graph, inputs)
    _require_outputs(graph.output_specs(), reference_outputs)
    found: list[Bound] = []
    for output, bound, reference in zip(exact, bounds, reference_outputs, strict=True):
        if not bound.any():
            found.append(bound)
            continue
        with np.errstate(all="ignore"):
            exactly, theirs = (decoded(one).astype(np.float64) for one in (output, reference))
            distance = np.abs(exactly - theirs)
        distance = np.where(np.isnan(distance), 0.0, distance)
        found.append(bound + np.minimum(distance, bound))
    return tuple(found)


def tolerance(
    graph: Graph,
) -> Callable[[Sequence[Array], Sequence[Array]], tuple[Bound, ...]]:
    """`allowed` for one graph: (inputs, reference outputs) -> bounds."""
    check(graph)

    def bounds(inputs: Sequence[Array], reference_outputs: Sequence[Array]) -> tuple[Bound, ...]:
        return allowed(graph, inputs, reference_outputs)

    return bounds


def agrees(result: Array, reference: Array, bound: Bound | float) -> npt.NDArray[np.bool_]:
    """Element by element: equal (NaN equals NaN), or no further apart than `bound`."""
    result, reference = decoded(result), decoded(reference)
    same = np.asarray(result == reference)
    if result.dtype.kind == "f":
        same = same | (np.isnan(result) & np.isnan(reference))
    if not np.any(bound):
        return same
    with np.errstate(all="ignore"):
        distance = np.abs(result.astype(np.float64) - reference.astype(np.float64))
    return np.asarray(same | (distance <= bound) | np.isinf(bound))


def _bound(error: Array | None) -> Bound:
    return np.zeros(()) if error is None else np.asarray(error, np.float64)


def _require_outputs(specs: Sequence[TensorSpec], outputs: Sequence[Array]) -> None:
    fits = len(specs) == len(outputs) and all(
        array.dtype == DTYPES[spec.dtype] and array.shape == spec.shape
        for spec, array in zip(specs, outputs, strict=True)
    )
    if not fits:
        got = ", ".join(f"{array.dtype}{array.shape}" for array in outputs)
        expected = ", ".join(map(str, specs))
        raise GraphError("graph_outputs_mismatch", got=got, expected=expected)
