"""Declaring operators on batches of matrices: what linear algebra shares.

Owns: the walk over the batch, what becomes of a matrix that is not finite or has no result, the
cost, the split rule (batch axes are parallel, a matrix stays whole), and the frame of the error
bounds. Must not: know any one operator.

A matrix with NaN or infinity in it, in any operand, and one that has no result (a singular one
where an inverse is wanted) has NaN in all floating results and 0, 1, 2, .. in integer ones. Others
of the batch are not touched by it.

What the catalog asks of backends: the result is the exact one for operands with a relative error of
at most `BACKWARD` n u in the Frobenius norm, n being the largest extent. That is backward stability
as LAPACK has it with a wide margin (N. J. Higham, Accuracy and Stability of Numerical Algorithms,
2nd edition, SIAM 2002, theorems 8.5, 9.4, 10.4 and 19.4; LAPACK Users' Guide, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.rounding import Format, format_of
from gpugoblin.catalog.rules import moved, require_rank, same_dtype, shapes_error
from gpugoblin.catalog.spec import (
    FLOATS,
    Array,
    Attribute,
    Attributes,
    Cost,
    Gradient,
    Operator,
    Sample,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.catalog.widening import dtype_name

__all__ = [
    "BACKWARD",
    "backward_error",
    "matrix_operator",
    "norms",
    "require_square",
    "smallest_singular",
]

BACKWARD: Final = 16.0

Shapes = Callable[[Sequence[TensorSpec], Attributes], tuple[TensorSpec, ...]]
Run = Callable[[Sequence[Array], Attributes], tuple[Array, ...]]
Bounds = Callable[
    [Sequence[Array], Sequence[Array], Sequence[Array], Attributes, Format],
    tuple[Array | None, ...],
]
"""(operands, their errors, results, attributes, the format of the results) -> errors, all float64
and all of rank 3 or more: one batch axis in front."""


def matrix_operator(
    name: str,
    attributes: tuple[Attribute, ...],
    shapes: Shapes,
    run: Run,
    flops: Callable[[Sequence[TensorSpec], Attributes], float],
    bounds: Bounds,
    samples: tuple[Sample, ...],
    summary: str,
    grad: Gradient,
    *,
    arity: int = 1,
    columns: bool = False,
) -> Operator:
    """The declaration.

    Args:
        shapes: output specs; floating dtypes and equal batch axes are required before it is asked.
        run: on float64 operands of shape [count, ...]; raises `LinAlgError` where one of them has
            no result, and is then asked for each alone. Integer operands stay as they are.
        flops: of one matrix.
        columns: the columns of the second operand are independent, and those of the result.
    """

    def infer(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
        for spec in inputs:
            require_rank(name, spec, 2)
        same_dtype(name, inputs, FLOATS)
        if any(spec.shape[:-2] != inputs[0].shape[:-2] for spec in inputs):
            raise shapes_error(name, inputs, "the batch extents must be equal")
        return shapes(inputs, given)

    def cost(
        inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], given: Attributes
    ) -> Cost:
        count = math.prod(inputs[0].shape[:-2])
        # Everything in float64, the work space of a factorization and its results.
        scratch = 64 * sum(spec.count for spec in (*inputs, *outputs))
        return moved(inputs, outputs, int(count * flops(inputs, given)), scratch)

    def reference(inputs: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
        specs = shapes([TensorSpec(dtype_name(array), array.shape) for array in inputs], given)
        kind = inputs[0].dtype
        results = [_empty(spec, kind) for spec in specs]
        batch = inputs[0].shape[:-2]
        flat = [np.reshape(a, (math.prod(batch), *a.shape[-2:])) for a in inputs]
        finite = np.logical_and.reduce([np.isfinite(one).all(axis=(1, 2)) for one in flat])
        operands = [one[finite].astype(np.float64) for one in flat]
        lines = [r.reshape((math.prod(batch), *r.shape[len(batch) :])) for r in results]
        with np.errstate(all="ignore"):
            for places, found in _found(run, operands, given):
                for line, part in zip(lines, found, strict=True):
                    line[np.flatnonzero(finite)[places]] = part
        return tuple(results)

    def splits(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[Split, ...]:
        return _splits(inputs, shapes(inputs, given)[0], columns)

    def propagate(
        inputs: Sequence[Array],
        errors: Sequence[Array | None],
        outputs: Sequence[Array],
        given: Attributes,
    ) -> tuple[Array | None, ...]:
        batch = inputs[0].shape[:-2]
        flat = [_flat(one, batch) for one in inputs]
        loose = [
            _flat(np.broadcast_to(0.0 if error is None else error, one.shape), batch)
            for one, error in zip(inputs, errors, strict=True)
        ]
        with np.errstate(all="ignore"):
            form = format_of(inputs)
            found = bounds(flat, loose, [_flat(one, batch) for one in outputs], given, form)
            return tuple(
                None if error is None else _guarded(error, one, flat, loose, batch, form)
                for error, one in zip(found, outputs, strict=True)
            )

    return Operator(
        name=name,
        version=1,
        arity=(arity, arity),
        attributes=attributes,
        infer=infer,
        cost=cost,
        reference=reference,
        splits=splits,
        tolerance=Tolerance(propagate=propagate),
        samples=samples,
        summary=summary,
        grad=grad,
    )


def require_square(name: str, inputs: Sequence[TensorSpec]) -> int:
    """The extent of square matrices."""
    rows, columns = inputs[0].shape[-2:]
    if rows != columns:
        raise shapes_error(name, inputs, "square matrices are wanted")
    return rows


def norms(matrices: Array) -> Array:
    """Frobenius norms, of shape [count, 1, 1]."""
    return np.asarray(np.sqrt(np.sum(np.square(matrices), axis=(-2, -1), keepdims=True)))


def backward_error(matrices: Array, errors: Array, form: Format) -> Array:
    """How far, in the Frobenius norm, the operand may lie from the one whose exact result an honest
    backend gives: its own error, the backend's, and subnormals that may be flushed. [count, 1, 1].
    """
    extent = max(1, *matrices.shape[-2:])
    own = BACKWARD * extent * form.unit * (norms(matrices) + norms(errors))
    return np.asarray(own + norms(errors) + extent * extent * form.tiny)


def smallest_singular(matrices: Array) -> Array:
    """The smallest singular values; 0 where the matrix is not finite. [count, 1, 1]."""
    count = matrices.shape[0]
    found = np.zeros(count)
    finite = np.isfinite(matrices).all(axis=(1, 2))
    if finite.any() and min(matrices.shape[1:]):
        values = np.linalg.svd(matrices[finite], compute_uv=False)
        # What float64 itself cannot tell from 0 is 0.
        noise = values[:, 0] * max(matrices.shape[1:]) * np.finfo(np.float64).eps
        found[finite] = np.maximum(values[:, -1] - noise, 0.0)
    return found[:, None, None]


def _found(
    run: Run, operands: Sequence[Array], given: Attributes
) -> Iterator[tuple[Array, tuple[Array, ...]]]:
    """Places in the batch, and the results there."""
    count = operands[0].shape[0]
    places = np.arange(count)
    if not count:
        return
    try:
        found = run(operands, given)
    except np.linalg.LinAlgError:
        if count > 1:
            for place in range(count):
                for _, one in _found(run, [array[place : place + 1] for array in operands], given):
                    yield places[place : place + 1], one
        return
    yield places, found


def _empty(spec: TensorSpec, kind: np.dtype[np.float64]) -> Array:
    if spec.dtype != "int64":
        return np.full(spec.shape, np.nan, kind)
    return np.array(np.broadcast_to(np.arange(spec.shape[-1], dtype=np.int64), spec.shape))


def _flat(array: Array, batch: tuple[int, ...]) -> Array:
    wide = array.astype(np.float64)
    return wide.reshape((math.prod(batch), *array.shape[len(batch) :]))


def _guarded(
    error: Array,
    output: Array,
    inputs: Sequence[Array],
    errors: Sequence[Array],
    batch: tuple[int, ...],
    form: Format,
) -> Array:
    """The bound with the rounding of the result itself; anything is admissible beside overflow and
    where an operand may or may not be finite, and NaN is certain where an operand is not."""
    count = output.shape[len(batch) :]
    tail = (1,) * len(count)
    value = output.astype(np.float64).reshape((math.prod(batch), *count))
    floating = output.dtype.kind == "f"
    size = np.where(np.isfinite(value), np.abs(value), 0.0)
    full = np.broadcast_to(error, value.shape)
    full = np.where(np.isnan(full), np.inf, full)
    if floating:
        full = full + form.unit * (size + full) + form.tiny
        full = np.where(size + full >= form.limit * 2.0**-8, np.inf, full)
    certain = np.logical_or.reduce([~np.isfinite(one).all(axis=(1, 2)) for one in inputs])
    open_ = np.logical_or.reduce([~np.isfinite(one).all(axis=(1, 2)) for one in errors])
    full = np.where(certain.reshape((-1, *tail)), 0.0, full)
    full = np.where(open_.reshape((-1, *tail)), np.inf, full)
    return np.asarray(full.reshape(output.shape))


def _splits(inputs: Sequence[TensorSpec], output: TensorSpec, columns: bool) -> tuple[Split, ...]:
    count, batch = len(inputs), inputs[0].rank - 2
    found = [Split(f"b{axis}", "parallel", (axis,) * count, axis) for axis in range(batch)]
    if columns:
        found.append(Split("n", "parallel", (None, batch + 1), batch + 1))
    taken = {split.output for split in found}
    for place in range(count):
        for axis in (batch, batch + 1):
            if not (columns and place == 1 and axis == batch + 1):
                operands = tuple(axis if n == place else None for n in range(count))
                found.append(Split(f"x{place}a{axis}", "whole", operands, None))
    found.extend(
        Split(f"o{axis}", "whole", (None,) * count, axis)
        for axis in range(output.rank)
        if axis not in taken
    )
    return tuple(found)
