"""The proof of a declaration: the cheap part of it at every import of the registry, all in tests.

Owns: what a whole declaration is. A failure is a defect of the catalog, so it is a LookupError and
not an error for users.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.spec import DTYPES, Array, Operator, Split, TensorSpec

__all__ = ["prove", "prove_declaration", "specs_of"]


def specs_of(arrays: Sequence[Array]) -> tuple[TensorSpec, ...]:
    """The specs of arrays whose dtypes are of the catalog."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    return tuple(TensorSpec(names[array.dtype], array.shape) for array in arrays)


def prove_declaration(operator: Operator) -> None:
    """Checks what can be checked without computing: names, order of attributes, labels of samples.
    Run for every operator when the registry is imported.

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


def prove(operator: Operator) -> None:
    """Checks a declaration wholly: as `prove_declaration`, and that `infer`, `cost`, `reference`
    and `splits` agree with one another on every sample. Run by the tests for every operator: at
    each import it would take longer than all else that an engine's start takes.

    Raises:
        LookupError: saying what is wrong.
    """
    prove_declaration(operator)
    generator = np.random.default_rng(20261130)
    arrays: list[Array] = []
    sizes: set[int] = set()
    for sample in operator.samples:
        inputs = sample.inputs(generator)
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
        _require((split.kind == "halo") == (split.halo is not None), operator, f"{where}: a halo")
        extents = {
            spec.shape[axis]
            for spec, axis in zip(inputs, split.operands, strict=True)
            if axis is not None
        }
        if split.output is not None:
            # An axis that stays whole need not be there in every output.
            extents |= {spec.shape[split.output] for spec in outputs if split.output < spec.rank}
        _require(
            split.kind in ("halo", "whole") or len(extents) <= 1,
            operator,
            f"{where}: extents of a split",
        )
    for number, spec in enumerate(inputs):
        axes = [s.operands[number] for s in splits if s.operands[number] is not None]
        _require(len(set(axes)) == len(axes) <= spec.rank, operator, f"{where}: input axes")


def _require(valid: bool, operator: Operator, what: str) -> None:
    if not valid:
        raise LookupError(f"the declaration of {operator.key} is wrong: {what}")
