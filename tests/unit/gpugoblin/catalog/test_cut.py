"""Every split rule, tried: pieces computed apart are the pieces of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.cut import cut_attributes
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array, Attributes, Halo, Operator, Sample, Split

CASES = [
    pytest.param(operator, sample, id=f"{operator.key}-{sample.name}")
    for operator in OPERATORS.values()
    for sample in operator.samples
]
COMBINE = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}


def take(array: Array, axis: int | None, start: int, stop: int) -> Array:
    if axis is None:
        return array
    return array[(*(slice(None),) * axis, slice(start, stop))]


def pieces(
    operator: Operator, inputs: Sequence[Array], attributes: Attributes, split: Split
) -> list[tuple[Array, ...]]:
    """The outputs of two pieces, cut at a third of the index."""
    specs = specs_of(inputs)
    outputs = operator.infer(specs, attributes)
    extents = [s.shape[a] for s, a in zip(specs, split.operands, strict=True) if a is not None]
    extent = extents[0] if extents else outputs[0].shape[split.output or 0]
    middle = (extent + 2) // 3
    found = []
    for start, stop in ((0, middle), (middle, extent)):
        parts = [take(x, a, start, stop) for x, a in zip(inputs, split.operands, strict=True)]
        own = dict(cut_attributes(operator, attributes, split, stop - start))
        expected = operator.infer(specs_of(parts), own)
        results = operator.reference(parts, own)
        assert specs_of(results) == expected
        found.append(results)
    return found


@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_pieces_make_the_whole(operator: Operator, sample: Sample) -> None:
    inputs = sample.inputs(np.random.default_rng(3))
    attributes = dict(normalize_attributes(operator, sample.attributes))
    whole = operator.reference(inputs, attributes)
    specs = specs_of(inputs)
    for split in operator.splits(specs, attributes):
        extents = [s.shape[a] for s, a in zip(specs, split.operands, strict=True) if a is not None]
        extents.extend([whole[0].shape[split.output]] if split.output is not None else [])
        if split.kind in ("halo", "whole") or min(extents) < 2:
            continue
        first, second = pieces(operator, inputs, attributes, split)
        for one, two, expected in zip(first, second, whole, strict=True):
            if split.kind == "parallel":
                assert split.output is not None
                joined = np.concatenate([one, two], split.output)
                np.testing.assert_array_equal(joined, expected)
            else:
                with np.errstate(all="ignore"):
                    combined = COMBINE[split.combine](one, two)
                np.testing.assert_allclose(combined, expected, rtol=1e-5, atol=1e-3)


def test_every_kind_of_split_is_there() -> None:
    found = {
        (operator.name, split.kind, split.combine)
        for operator in OPERATORS.values()
        for sample in operator.samples
        for split in operator.splits(
            specs_of(sample.inputs(np.random.default_rng(0))),
            dict(normalize_attributes(operator, sample.attributes)),
        )
    }
    for expected in (
        ("matmul", "sum", "add"),
        ("matmul", "parallel", ""),
        ("reduce", "sum", "maximum"),
        ("reduce", "whole", ""),
        ("topk", "whole", ""),
        ("formula", "parallel", ""),
        ("reshape", "parallel", ""),
    ):
        assert expected in found


def test_a_whole_index_is_not_cut() -> None:
    topk = OPERATORS["topk@1"]
    split = Split("i0", "whole", (0,), 0)
    with pytest.raises(ValueError, match="must stay whole"):
        cut_attributes(topk, {"axis": 0, "k": 1, "largest": True}, split, 3)
    halo = Split("i0", "halo", (0,), 0, halo=Halo(1, 0, 3))
    with pytest.raises(ValueError, match="must stay whole"):
        cut_attributes(OPERATORS["pool@1"], {}, halo, 3)
    cut = cut_attributes(
        topk, {"axis": 1, "k": 1, "largest": True}, replace(split, kind="parallel"), 3
    )
    assert cut == {"axis": 1, "k": 1, "largest": True}
