"""The operator `iota`: 0, 1, 2, ... Owns: its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.rules import int_attribute, moved, text_attribute
from gpugoblin.catalog.samples import sample
from gpugoblin.catalog.spec import (
    DTYPES,
    Array,
    Attribute,
    Attributes,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.errors import GraphError

__all__ = ["IOTA", "OPERATORS"]


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    count, dtype = int_attribute(attributes, "count"), text_attribute(attributes, "dtype")
    most = 2**31 if dtype == "int32" else 2**40
    if not 0 <= count <= most:
        raise GraphError(
            "attribute_invalid",
            operator="iota",
            attribute="count",
            value=count,
            reason=f"0 to {most} is wanted",
        )
    return (TensorSpec(dtype, (count,)),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    dtype = DTYPES[text_attribute(attributes, "dtype")]
    return (np.arange(int_attribute(attributes, "count"), dtype=dtype),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    # A piece would have to begin elsewhere than at 0.
    return (Split("i0", "whole", (), 0),)


IOTA: Final = Operator(
    name="iota",
    version=1,
    arity=(0, 0),
    attributes=(
        Attribute("count", "int"),
        Attribute("dtype", "choice", required=False, default="int64", choices=("int32", "int64")),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(),
    samples=(
        sample("five", count=5),
        sample("int32", count=7, dtype="int32"),
        sample("empty", count=0),
        sample("size_1", count=1),
        sample("long", count=3000),
    ),
    summary="The integers from 0 below `count`.",
)

OPERATORS: Final = (IOTA,)
