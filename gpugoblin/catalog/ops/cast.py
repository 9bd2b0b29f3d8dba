"""The operator `cast`: a change of dtype. Owns: its declaration; the meaning is in
`catalog/casting.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_eval import formula_errors
from gpugoblin.catalog.rules import moved, parallel_axes, text_attribute
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    FLOATS,
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
from gpugoblin.catalog.widening import is_wide

__all__ = ["CAST", "OPERATORS"]


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    return (TensorSpec(text_attribute(attributes, "dtype"), inputs[0].shape),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs, outputs[0].count, 32 * min(inputs[0].count, 1 << 16))


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        wide = is_wide(inputs[0])
        return (cast_array(inputs[0], text_attribute(attributes, "dtype"), wide=wide).copy(),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return parallel_axes(inputs[0].rank)


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    if errors[0] is None:
        return (None,)
    if inputs[0].dtype == outputs[0].dtype:
        return (errors[0],)
    dtype = text_attribute(attributes, "dtype")
    tree = Formula((FormulaNode("input"), FormulaNode("cast", (0,), dtype=dtype)))
    return (formula_errors(tree, inputs, errors),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The seed, cast back; integers, bools and stored floats stop it."""
    (seed,), dtype = seeds, builder.spec(inputs[0]).dtype
    if seed is None or dtype not in FLOATS or builder.spec(seed).dtype not in FLOATS:
        return (None,)
    return (
        seed if builder.spec(seed).dtype == dtype else builder.add("cast", [seed], dtype=dtype),
    )


CAST: Final = Operator(
    name="cast",
    version=1,
    arity=(1, 1),
    attributes=(Attribute("dtype", "dtype"),),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("to_int32", normal(4, 5, scale=1e10), dtype="int32"),
        sample("to_int64", normal(4, 5, scale=1e20), dtype="int64"),
        sample("special", special(4, 5), dtype="int32"),
        sample("special_bool", special(4, 5), dtype="bool"),
        sample("empty", normal(0, 2), dtype="int64"),
        sample("size_1", normal(1), dtype="bool"),
        sample("strided", strided(normal(3, 4, scale=9.0)), dtype="int32"),
        sample("wrap", ints(9, dtype="int64", low=-(2**62), high=2**62), dtype="int32"),
        sample("rounded", ints(9, dtype="int64", low=2**62, high=2**63 - 1), dtype="float32"),
        sample("from_bool", truth(3, 3), dtype="float32"),
        sample("same", normal(3), dtype="float32"),
        sample("wider", special(9), dtype="float64"),
    ),
    summary="Changes the dtype. Float to integer goes toward zero and saturates, NaN becomes 0; "
    "integers wrap when narrowed; bool is 'not zero'.",
    grad=_grad,
)

OPERATORS: Final = (CAST,)
