"""Elementwise functions of lazy values: broadcasting, promotion, Python numbers.

Owns: the step from `a + 1` to scalar functions of `formula`. Fusing them is `lower.py`. Must not:
evaluate anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.capture.applying import describe, refused
from gpugoblin.capture.caller import Place
from gpugoblin.capture.dtypes import Number, literal_dtype, promote
from gpugoblin.capture.expression import CAST, LITERAL, SCALAR, Expression, Value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, FLOATS, MAX_RANK, TensorSpec
from gpugoblin.errors import CaptureError

__all__ = ["broadcast_shape", "cast", "elementwise", "literal", "select"]

_DEFAULT: Final = {bool: "bool", int: "int64", float: "float32"}


def literal(number: Number, dtype: str, place: Place) -> Value:
    """A number as a 0-d value. The dtype has been checked."""
    data = np.array(number, DTYPES[dtype])
    return Value(Expression(LITERAL, (), (TensorSpec(dtype, ()),), data=data, place=place), 0)


def cast(value: Value, dtype: str, place: Place) -> Value:
    """`value` in another dtype, by the catalog's rule (`catalog/casting.py`)."""
    if value.spec.dtype == dtype:
        return value
    spec = TensorSpec(dtype, value.spec.shape)
    return Value(Expression(CAST, (value,), (spec,), {"dtype": dtype}, place=place), 0)


def elementwise(name: str, operands: Sequence[Value | Number], place: Place) -> Value:
    """Applies scalar function `name`; at least one operand is a value.

    Raises:
        CaptureError: `dtypes_mixed`, `shapes_differ`, `argument_refused`.
    """
    values = _unify(name, operands, place)
    function = SCALARS[name]
    dtypes = [value.spec.dtype for value in values]
    if dtypes[0] not in function.accepts:
        raise refused(
            name,
            values,
            f"it takes {', '.join(function.accepts)}",
            _conversion(dtypes[0], function.accepts),
            place,
        )
    return _node(name, values, function.dtype_rule(dtypes) or dtypes[0], place)


def select(condition: Value, yes: Value | Number, no: Value | Number, place: Place) -> Value:
    """`yes` where `condition`, else `no`.

    Raises:
        CaptureError: `dtypes_mixed`, `shapes_differ`, `argument_refused`.
    """
    if condition.spec.dtype != "bool":
        raise refused(
            "where", [condition], "the condition must be bool", "Compare it: x != 0.", place
        )
    first, second = _unify("where", _concrete(yes, no, place), place)
    return _node("where", [condition, first, second], first.spec.dtype, place)


def broadcast_shape(operator: str, values: Sequence[Value], place: Place) -> tuple[int, ...]:
    """NumPy's rule: axes are matched from the last; 1 stretches.

    Raises:
        CaptureError: `shapes_differ`, naming the axis.
    """
    rank = max(value.spec.rank for value in values)
    shape: list[int] = []
    for axis in range(-rank, 0):
        extents = {v.spec.shape[axis] for v in values if v.spec.rank >= -axis} - {1}
        if len(extents) > 1:
            raise CaptureError(
                "shapes_differ",
                line=place,
                operator=operator,
                operands=describe(values),
                cause=f"axis {axis} has the extents {' and '.join(map(str, sorted(extents)))}, "
                "and only 1 stretches",
                fix="Line the axes up from the last one: x[:, None] adds an axis, x.T turns two.",
            )
        shape.append(extents.pop() if extents else 1)
    return tuple(shape)


def _node(name: str, values: Sequence[Value], dtype: str, place: Place) -> Value:
    spec = TensorSpec(dtype, broadcast_shape(name, values, place))
    if spec.rank > MAX_RANK:
        raise refused(name, values, f"the rank is over {MAX_RANK}", "Merge some axes.", place)
    return Value(Expression(SCALAR + name, tuple(values), (spec,), place=place), 0)


def _concrete(
    yes: Value | Number, no: Value | Number, place: Place
) -> tuple[Value | Number, Value | Number]:
    """Gives one of two plain numbers the dtype that a Python number has by itself."""
    if isinstance(yes, Value) or isinstance(no, Value):
        return yes, no
    wider = max(type(yes), type(no), key=(bool, int, float).index)
    dtype = literal_dtype("where", wider(yes), _DEFAULT[wider], place)
    return literal(wider(yes), dtype, place), no


def _unify(name: str, operands: Sequence[Value | Number], place: Place) -> list[Value]:
    arrays = [operand for operand in operands if isinstance(operand, Value)]
    common = promote(name, tuple(a.spec.dtype for a in arrays), describe(arrays), place)
    unified: list[Value] = []
    for operand in operands:
        if isinstance(operand, Value):
            unified.append(cast(operand, common, place))
        else:
            dtype = literal_dtype(name, operand, common, place)
            unified.append(literal(operand, dtype, place))
    return unified


def _conversion(dtype: str, accepts: tuple[str, ...]) -> str:
    if "float32" in accepts:
        return 'Convert it: .astype("float32").'
    if dtype in FLOATS:
        return 'Convert it: .astype("int64"), or compare it to get a bool.'
    return f'Convert it: .astype("{accepts[0]}").'
