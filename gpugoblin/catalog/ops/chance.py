"""The operator `random`: numbers that a key decides. Owns: its declaration.

The key is an input: [key, stream], two int64. The words are those of Philox4x32-10
(`catalog/philox.py`); element i, in C order, is made from

* `bits`: word i, as int32;
* `uniform`: word i: its upper 24 bits times 2^-24, from 0 to 1 - 2^-24, exactly;
* `normal`: words 2j and 2j + 1 for elements 2j and 2j + 1, by Box and Muller (1958): with u and v
  the uniform numbers of both, sqrt(-2 log(1 - u)) times cos(2 pi v) and sin(2 pi v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.philox import words
from gpugoblin.catalog.rounding import U
from gpugoblin.catalog.rules import (
    ints_attribute,
    moved,
    require_dtype,
    shapes_error,
    text_attribute,
)
from gpugoblin.catalog.samples import ints, sample, strided
from gpugoblin.catalog.spec import (
    MAX_RANK,
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

__all__ = ["OPERATORS", "RANDOM", "draw"]

_FLOPS: Final = {"bits": 40, "uniform": 42, "normal": 70}

NORMAL_ERROR: Final = 6.0 * 2.0**-20 + 6.0 * 64.0 * U
"""The radius is at most 6, and has a relative error of 32 u; sin and cos have 2^-21 and what the
rounding of 2 pi v moves them."""


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    require_dtype("random (key)", inputs[0], ("int64",))
    if inputs[0].shape != (2,):
        raise shapes_error("random", inputs, "a key of shape (2,) is wanted")
    shape = ints_attribute(attributes, "shape")
    if len(shape) > MAX_RANK or any(extent < 0 for extent in shape):
        raise GraphError(
            "attribute_invalid",
            operator="random",
            attribute="shape",
            value=shape,
            reason=f"at most {MAX_RANK} extents of 0 or more",
        )
    dtype = "int32" if text_attribute(attributes, "function") == "bits" else "float32"
    return (TensorSpec(dtype, shape),)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    weight = _FLOPS[text_attribute(attributes, "function")]
    return moved(inputs, outputs, weight * outputs[0].count, 8 << 20)


def draw(key: Array, function: str, start: int, stop: int) -> Array:
    """Elements `start` to `stop` of the flat result: int32, or float64 not yet rounded."""
    first, last = start - start % 2, stop + stop % 2
    found = words(int(key[0]), int(key[1]), first, last)
    if function == "bits":
        return found[start - first : stop - first].view(np.int32)
    share = (found >> np.uint32(8)) * 2.0**-24
    if function == "normal":
        radius = np.sqrt(-2.0 * np.log1p(-share[0::2]))
        angle = 2.0 * np.pi * share[1::2]
        share = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)
    return np.asarray(share[start - first : stop - first])


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    shape, function = ints_attribute(attributes, "shape"), text_attribute(attributes, "function")
    count = int(np.prod(shape, dtype=np.int64))
    found = draw(inputs[0], function, 0, count).reshape(shape)
    return (found.astype(np.int32 if function == "bits" else np.float32),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    # A piece would have to begin elsewhere in the stream.
    rank = len(ints_attribute(attributes, "shape"))
    return (
        Split("k", "whole", (0,), None),
        *(Split(f"i{axis}", "whole", (None,), axis) for axis in range(rank)),
    )


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    if errors[0] is not None and np.any(errors[0] > 0):
        return (np.full(outputs[0].shape, np.inf),)
    if text_attribute(attributes, "function") == "normal":
        return (np.full(outputs[0].shape, NORMAL_ERROR),)
    return (None,)


_KEY: Final = ints(2, dtype="int64", low=-(2**62), high=2**62)

RANDOM: Final = Operator(
    name="random",
    version=1,
    arity=(1, 1),
    attributes=(
        Attribute("function", "choice", choices=("bits", "uniform", "normal")),
        Attribute("shape", "ints"),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("bits", _KEY, function="bits", shape=(3, 5)),
        sample("uniform", _KEY, function="uniform", shape=(7,)),
        sample("normal", _KEY, function="normal", shape=(5, 5)),
        sample("even", _KEY, function="normal", shape=(4,)),
        sample("empty", _KEY, function="normal", shape=(0, 3)),
        sample("size_1", _KEY, function="uniform", shape=()),
        sample("strided", strided(_KEY), function="bits", shape=(9,)),
    ),
    summary="Numbers from a key [key, stream] of two int64 by Philox4x32-10: `bits` (int32), "
    "`uniform` (float32 from 0 below 1) or `normal` (float32, Box and Muller). One key gives the "
    "same numbers everywhere.",
)

OPERATORS: Final = (RANDOM,)
