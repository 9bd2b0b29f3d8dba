"""The proof of a declaration, run for every operator when the registry is imported.

Owns: what a whole declaration is. A failure is a defect of the catalog, so it is a LookupError and
not an error for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.spec import DTYPES, Array, Operator, Split, TensorSpec

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["prove", "specs_of"]


class _Draws:
    """As much of a generator as samples call, without the 12 ms that numpy.random takes to import:
    an engine imports the registry each time it starts. The conformance suite uses real ones."""

    def __init__(self) -> None:
        self._count = 0

    def _fractions(self, size: int) -> npt.NDArray[np.float64]:
        """The golden-ratio sequence: spread evenly over [0, 1)."""
        steps = np.arange(self._count + 1, self._count + size + 1)
        self._count += size
        return np.asarray(steps * 0.6180339887498949 % 1.0)

    def standard_normal(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(4.0 * self._fractions(int(np.prod(shape))) - 2.0).reshape(shape)

    def integers(
        self, low: int, high: int, shape: tuple[int, ...], dtype: npt.DTypeLike, endpoint: bool
    ) -> Array:
        span = high - low + endpoint
        # Python's integers: the range may be wider than 64 bits hold.
        drawn = [
            low + int(part * 2**53) * span // 2**53 for part in self._fractions(int(np.prod(shape)))
        ]
        return np.array(drawn, dtype).reshape(shape)

    def permutation(self, size: int) -> Array:
        return np.argsort(self._fractions(size))


def specs_of(arrays: Sequence[Array]) -> tuple[TensorSpec, ...]:
    """The specs of arrays whose dtypes are of the catalog."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    return tuple(TensorSpec(names[array.dtype], array.shape) for array in arrays)


def prove(operator: Operator) -> None:
    """Checks a declaration: names, order of attributes, samples, and that `infer`, `cost`,
    `reference` and `splits` agree with one another on every sample.

    Raises:
        LookupError: saying what is wrong.
    """
    names = [attribute.name for attribute in operator.attributes]
    _require(operator.name.isidentifier() and operator.name.islower(), operator, "its name")
    _require(operator.version >= 1, operator, "its version")
    _require(names == sorted(set(names)), operator, "its attributes are not sorted and unique")
    for attribute in operator.attributes:
        _require(
            attribute.required == (attribute.default is None), operator, "a default is unclear"
        )
        _require(
            (attribute.kind == "choice") == bool(attribute.choices), operator, "choices are unclear"
        )
    _require(bool(operator.summary), operator, "it has no summary")
    _require(len(operator.samples) >= 5, operator, "it has fewer than five samples")
    labels = [sample.name for sample in operator.samples]
    _require(len(set(labels)) == len(labels), operator, "two samples have one name")
    arrays: list[Array] = []
    sizes: set[int] = set()
    for sample in operator.samples:
        inputs = sample.inputs(cast("Generator", _Draws()))
        arrays.extend(inputs)
        results = _prove_sample(operator, sample.name, inputs, dict(sample.attributes))
        sizes |= {array.size for array in (*inputs, *results)}
    _require(0 in sizes, operator, "no sample is empty")
    _require(1 in sizes, operator, "no sample has size 1")
    if not arrays:
        return
    _require(
        any(not array.flags.c_contiguous for array in arrays),
        operator,
        "no sample is non-contiguous",
    )
    floats = [array for array in arrays if array.dtype.kind == "f"]
    if floats:
        _require(any(np.isnan(array).any() for array in floats), operator, "no sample has NaN")
        _require(any(np.isinf(array).any() for array in floats), operator, "no sample has infinity")


def _prove_sample(
    operator: Operator, name: str, inputs: Sequence[Array], given: dict[str, object]
) -> Sequence[Array]:
    where = f"sample {name}"
    attributes = dict(normalize_attributes(operator, given))
    least, most = operator.arity
    _require(least <= len(inputs) <= most, operator, f"{where}: the number of inputs")
    specs = specs_of(inputs)
    outputs = operator.infer(specs, attributes)
    results = operator.reference(inputs, attributes)
    _require(specs_of(results) == outputs, operator, f"{where}: reference and infer differ")
    cost = operator.cost(specs, outputs, attributes)
    _require(
        min(cost.flops, cost.bytes_read, cost.bytes_written, cost.scratch_bytes) >= 0,
        operator,
        f"{where}: a negative cost",
    )
    _prove_splits(operator, where, operator.splits(specs, attributes), specs, outputs)
    return results


def _prove_splits(
    operator: Operator,
    where: str,
    splits: Sequence[Split],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> None:
    """Every axis of every output has one index (but for extents 1 that `keepdims` left); extents
    agree where an index is cut."""
    covered = [split.output for split in splits if split.output is not None]
    _require(len(set(covered)) == len(covered), operator, f"{where}: an output axis is named twice")
    for axis, extent in enumerate(outputs[0].shape):
        _require(axis in covered or extent == 1, operator, f"{where}: output axis {axis}")
    _require(
        len({split.index for split in splits}) == len(splits), operator, f"{where}: index names"
    )
    for split in splits:
        _require(len(split.operands) == len(inputs), operator, f"{where}: operands of a split")
        _require(
            (split.kind == "sum") == bool(split.combine), operator, f"{where}: combine of a split"
        )
        extents = {
            spec.shape[axis]
            for spec, axis in zip(inputs, split.operands, strict=True)
            if axis is not None
        }
        if split.output is not None:
            extents |= {spec.shape[split.output] for spec in outputs}
        _require(
            split.kind == "whole" or len(extents) <= 1, operator, f"{where}: extents of a split"
        )
    for number, spec in enumerate(inputs):
        axes = [s.operands[number] for s in splits if s.operands[number] is not None]
        _require(len(set(axes)) == len(axes) <= spec.rank, operator, f"{where}: input axes")


def _require(valid: bool, operator: Operator, what: str) -> None:
    if not valid:
        raise LookupError(f"the declaration of {operator.key} is wrong: {what}")
