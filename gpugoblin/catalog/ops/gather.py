"""The operator `gather`: elements by index along one axis. Owns: its declaration.

An index below 0 or at least the extent is an error, `index_out_of_range`, and never wraps, clamps
or yields a filler: a wrong index in a research program must not become a wrong number. The whole
task fails, on whatever backend, whichever of its elements needed the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpugoblin.catalog.building import filled
from gpugoblin.catalog.rules import (
    int_attribute,
    moved,
    require_axis,
    require_dtype,
    require_rank,
    shapes_error,
)
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
    MAX_RANK,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.errors import GraphError

__all__ = ["GATHER", "OPERATORS", "require_indices"]


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    data, indices = inputs
    require_dtype("gather", data, tuple(DTYPES))
    require_dtype("gather (indices)", indices, ("int32", "int64"))
    require_rank("gather", data, 1)
    axis = require_axis("gather", "axis", int_attribute(attributes, "axis"), data.rank)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if len(shape) > MAX_RANK:
        raise shapes_error("gather", inputs, f"the result would have more than {MAX_RANK} axes")
    return (TensorSpec(data.dtype, shape),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    # Reads what it takes, not the whole table; NumPy widens the indices to 64 bits.
    taken = moved((*outputs, inputs[1]), outputs)
    return replace(taken, scratch_bytes=8 * inputs[1].count)


def require_indices(indices: Array, axis: int, extent: int, operator: str = "gather") -> None:
    """Requires 0 <= index < extent everywhere.

    Raises:
        GraphError: index_out_of_range.
    """
    bad = (indices < 0) | (indices >= extent)
    if bad.any():
        raise GraphError(
            "index_out_of_range",
            operator=operator,
            index=int(indices[bad].flat[0]),
            axis=axis,
            extent=extent,
        )


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    data, indices = inputs
    axis = int_attribute(attributes, "axis")
    require_indices(indices, axis, data.shape[axis])
    return (np.array(np.take(data, indices, axis=axis), order="C"),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    axis = int_attribute(attributes, "axis")
    data, indices = inputs
    return (
        *(
            Split(f"d{place}", "whole", (place, None), None)
            if place == axis
            else Split(
                f"d{place}",
                "parallel",
                (place, None),
                place + (indices.rank - 1 if place > axis else 0),
            )
            for place in range(data.rank)
        ),
        *(
            Split(f"i{place}", "parallel", (None, place), axis + place)
            for place in range(indices.rank)
        ),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """The error of the element taken; where the index is open, the reach of the whole axis."""
    data, indices = inputs
    axis = int_attribute(attributes, "axis")
    of_data, of_indices = errors
    if of_data is None and of_indices is None:
        return (None,)
    loose = np.broadcast_to(0.0 if of_data is None else of_data, data.shape)
    error = np.take(loose, indices, axis=axis)
    if of_indices is None:
        return (error,)
    shape = (1,) * axis + indices.shape + (1,) * (data.ndim - axis - 1)
    is_open = np.broadcast_to(of_indices, indices.shape).reshape(shape) > 0
    wide = data.astype(np.float64)
    if not np.isfinite(wide).all():
        return (np.where(is_open, np.inf, error),)
    # One extent-1 axis stands where the indices' axes are.
    ends = [
        fold(wide + sign * loose, axis=axis, keepdims=True)
        for fold, sign in ((np.max, 1), (np.min, -1))
    ]
    middle = (*data.shape[:axis], *(1,) * indices.ndim, *data.shape[axis + 1 :])
    exact = outputs[0].astype(np.float64)
    reach = np.maximum(*(np.abs(end.reshape(middle) - exact) for end in ends))
    return (np.where(is_open, reach, error),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """Each seed is added where its element was taken."""
    (seed,) = seeds
    if seed is None:
        return None, None
    zeros = filled(builder, builder.spec(inputs[0]))
    operands = [zeros, inputs[1], seed]
    axis = int_attribute(attributes, "axis")
    return builder.add("scatter", operands, axis=axis, function="add"), None


GATHER: Final = Operator(
    name="gather",
    version=1,
    arity=(2, 2),
    attributes=(Attribute("axis", "int"),),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("rows", normal(6, 4), ints(5, low=0, high=5), axis=0),
        sample("grid", normal(2, 6, 3), ints(2, 2, dtype="int64", low=0, high=5), axis=1),
        sample("scalar_index", normal(3, 4), ints(low=0, high=3), axis=1),
        sample("empty", normal(3, 4), ints(0, low=0, high=2), axis=0),
        sample("size_1", normal(1), ints(1, low=0, high=0), axis=0),
        sample("strided", strided(normal(5, 4)), strided(ints(3, low=0, high=4)), axis=0),
        sample("special", special(5, 4), ints(6, low=0, high=3), axis=1),
        sample("bool", truth(5), ints(4, low=0, high=4), axis=0),
    ),
    summary="Elements of the first input along an axis by int32 or int64 indices: the axis is "
    "replaced by the indices' axes. An index that is negative or too large is an error.",
    grad=_grad,
)

OPERATORS: Final = (GATHER,)
