"""Evaluating a formula: the reference, and how far honest evaluations lie from it.

Owns: the reference meaning. Every float node is computed in float64; one of float32 has the range
of float32 (what rounds to infinity there is infinity); integer nodes wrap in their own width; only
the result is rounded. Slow and plain: engines have their own evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpugoblin.catalog.blocks import blocks
from gpugoblin.catalog.casting import STORAGE, cast_array, decoded, encoded
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.catalog.rounding import (
    FLOAT32,
    Error,
    Format,
    add_errors,
    format_named,
    to_range,
    with_flush,
)
from gpugoblin.catalog.scalar_errors import monotone, unless_wrapped
from gpugoblin.catalog.scalars import BITWISE, SCALARS, ScalarFunction
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.catalog.widening import dtype_name, is_wide, plain

__all__ = ["evaluate_formula", "formula_errors"]


def evaluate_formula(formula: Formula, inputs: Sequence[Array]) -> Array:
    """The reference result: inputs broadcast as in NumPy, dtype by the tree.

    Where inputs stand for float32 (`catalog/widening.py`), the result is not rounded.
    """
    dtypes = check_formula(formula, [dtype_name(array) for array in inputs])
    shape = np.broadcast_shapes(*(array.shape for array in inputs))
    wide = dtypes[-1] == "float32" and any(map(is_wide, inputs))
    result = np.empty(shape, np.float64 if wide else DTYPES[dtypes[-1]])
    views = [np.broadcast_to(plain(array), shape) for array in inputs]
    with np.errstate(all="ignore"):
        for box in blocks(shape):
            value, _ = _walk(formula, dtypes, [np.asarray(view[box]) for view in views], None)
            if dtypes[-1] in STORAGE:
                value = encoded(value, dtypes[-1])
            result[box] = value
    return result


def formula_errors(formula: Formula, inputs: Sequence[Array], errors: Sequence[Error]) -> Error:
    """How far honest evaluations lie from the reference, for inputs within `errors`.

    Returns:
        float64 of the result's shape, or None where the result is exact.
    """
    dtypes = check_formula(formula, [dtype_name(array) for array in inputs])
    shape = np.broadcast_shapes(*(array.shape for array in inputs))
    views = [np.broadcast_to(plain(array), shape) for array in inputs]
    found = [None if error is None else np.broadcast_to(error, shape) for error in errors]
    result = np.zeros(shape)
    open_result = False
    with np.errstate(all="ignore"):
        for box in blocks(shape):
            part = [None if error is None else np.asarray(error[box]) for error in found]
            _, error = _walk(formula, dtypes, [np.asarray(view[box]) for view in views], part)
            if error is not None:
                open_result = True
                result[box] = error
    return result if open_result else None


def _walk(
    formula: Formula,
    dtypes: Sequence[str],
    inputs: Sequence[Array],
    errors: Sequence[Error] | None,
) -> tuple[Array, Error]:
    last_use = {o: number for number, node in enumerate(formula.nodes) for o in node.operands}
    known: dict[int, tuple[Array, Error]] = {}
    for number, node in enumerate(formula.nodes):
        operands = [known[operand] for operand in node.operands]
        kinds = [dtypes[operand] for operand in node.operands]
        known[number] = _step(node, dtypes[number], kinds, operands, inputs, errors)
        for operand in node.operands:
            if last_use[operand] == number:
                known.pop(operand, None)
    value, error = known[len(formula.nodes) - 1]
    if errors is not None and error is not None and value.dtype.kind == "f":
        # The reference itself is rounded at the end.
        unit = format_named(dtypes[-1]).unit
        error = error + np.where(np.isfinite(value), np.abs(value) * unit, 0.0)
    return value, error


def _step(
    node: FormulaNode,
    dtype: str,
    kinds: Sequence[str],
    operands: Sequence[tuple[Array, Error]],
    inputs: Sequence[Array],
    errors: Sequence[Error] | None,
) -> tuple[Array, Error]:
    form = format_named(dtype)
    match node.function:
        case "input":
            array = inputs[node.value]
            error = None if errors is None else with_flush(array, errors[node.value], form)
            return _wide(array), error
        case "const":
            value = _wide(const_value(node))
            return value, None if errors is None else with_flush(value, None, form)
        case "cast":
            return _cast(kinds[0], dtype, *operands[0], tracked=errors is not None)
    function = SCALARS[node.function]
    values = [value for value, _ in operands]
    if node.function in BITWISE:
        values = [_rounded(value, kind) for value, kind in zip(values, kinds, strict=True)]
    value = _wide(np.asarray(function.evaluate(*values)))
    found = [error for _, error in operands]
    if errors is None:
        return (to_range(value, form) if value.dtype.kind == "f" else value), None
    value, error = _with_error(function, values, found, value, form)
    if node.function == "bits_float":  # the one function that makes small numbers of whole ones
        error = with_flush(value, error, form)
    return value, error


def _rounded(value: Array, dtype: str) -> Array:
    """What a function that reads bits is given: its neighbors are those of the dtype."""
    return value.astype(np.float32) if dtype == "float32" else value


def _wide(array: Array) -> Array:
    numbers = decoded(array)
    return numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers


def _with_error(
    function: ScalarFunction,
    values: Sequence[Array],
    errors: Sequence[Error],
    value: Array,
    form: Format,
) -> tuple[Array, Error]:
    moved: Error = None
    if any(error is not None for error in errors):
        moved = function.spread(values, errors, value)
    kind = value.dtype.kind
    if kind == "b":
        return value, moved
    if kind in "iu":
        return value, None if moved is None else unless_wrapped(value, moved)
    rounding: Error = None
    if function.relative or function.absolute:
        share: Array | float = function.relative * form.unit
        if function.growth is not None:
            growth = function.growth(values, value)
            share = share * (1.0 + np.where(np.isfinite(growth), growth, 0.0))
        size = np.where(np.isfinite(value), np.abs(value), 0.0)
        rounding = size * share + (function.absolute * (form.unit / FLOAT32.unit) + form.tiny)
    return _ranged(value, add_errors(moved, rounding), form)


def _ranged(value: Array, error: Error, form: Format) -> tuple[Array, Error]:
    """The value in the range of its format; anything where only rounding decides the overflow."""
    if error is not None:
        size = np.where(np.isnan(value), 0.0, np.abs(value))
        may, must = size + error >= form.limit, size - error >= form.limit
        finite = np.isfinite(value)
        error = np.where(finite & may, np.where(must, 0.0, np.inf), error)
        error = np.where(~finite & ~np.isinf(error), 0.0, error)
    return to_range(value, form), error


def _cast(
    source: str, dtype: str, value: Array, error: Error, *, tracked: bool
) -> tuple[Array, Error]:
    if source == "float64" and dtype in STORAGE:
        value = value.astype(np.float32).astype(np.float64)
    result = np.asarray(cast_array(value, dtype, wide=True))
    if not tracked:
        return result, None
    moved: Error = None
    if error is not None:

        def numeric(moving: Array) -> Array:
            if value.dtype.kind == "b":
                return moving
            return np.asarray(cast_array(moving, dtype, wide=True), np.float64)

        if value.dtype.kind in "iu" and result.dtype.kind in "iu":
            moved = unless_wrapped(result, error)
        else:
            moved = monotone(numeric)([value], [error], result.astype(np.float64))
        if dtype == "bool":
            near = np.abs(value.astype(np.float64)) <= error
            moved = np.where((error > 0) & near, 1.0, 0.0)
    if dtype in ("float32", "float64", *STORAGE) and value.dtype.kind in "iu":
        moved = add_errors(moved, np.abs(result) * format_named(dtype).unit)
    if source == "float64" and dtype in ("float32", *STORAGE):
        size = np.where(np.isfinite(result), np.abs(result), 0.0)
        moved = add_errors(moved, size * FLOAT32.unit + FLOAT32.tiny)
        return _ranged(result, moved, FLOAT32)
    return result, moved
