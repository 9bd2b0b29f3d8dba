"""The shape of an operator's declaration.

Owns: the vocabulary in which `catalog/ops/*.py` declare operators, and that everything else reads.
Must not: import `gpugoblin.graph`; hold any operator; know any backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.program import Graph

__all__ = [
    "DTYPES",
    "FLOATS",
    "INTEGERS",
    "MAX_RANK",
    "NUMBERS",
    "Array",
    "AttrValue",
    "Attribute",
    "Attributes",
    "BodyBuilder",
    "Builder",
    "Cost",
    "Gradient",
    "Halo",
    "Operator",
    "Sample",
    "Split",
    "TensorSpec",
    "Tolerance",
]

Array = npt.NDArray[Any]

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "float32": np.dtype("<f4"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "bool": np.dtype("?"),
    "int8": np.dtype("i1"),
    "int16": np.dtype("<i2"),
    "uint8": np.dtype("u1"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("V2"),
    "float64": np.dtype("<f8"),
}
"""Every dtype that a tensor of a graph may have, with its bytes on the wire (little-endian).

float16 and bfloat16 are for storage: they are moved and cast, and computed in float32. NumPy has no
bfloat16; its two bytes are opaque there (`V2`), so that nothing takes them for integers. float64 is
for backends that have it: the processor, and cards that say so.
"""

FLOATS: Final = ("float32", "float64")
"""Dtypes that are computed with and carry gradients."""
INTEGERS: Final = ("int32", "int64", "int8", "int16", "uint8")
NUMBERS: Final = (*FLOATS, *INTEGERS)

MAX_RANK: Final = 8

AttrValue = int | bool | str | tuple[int, ...] | Formula | Graph
Attributes = Mapping[str, AttrValue]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The type of a tensor: a dtype of `DTYPES` and a logical shape (no strides)."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int:
        """Number of elements; 1 for a scalar."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    @property
    def nbytes(self) -> int:
        return self.count * DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an operator.

    Args:
        kind: `int`, `bool`, `ints` (a tuple), `choice` (one of `choices`), `dtype`, `formula`,
            `graph` (a program of its own: the body of a loop).
        required: an attribute that is not required has `default`.
    """

    name: str
    kind: Literal["int", "bool", "ints", "choice", "dtype", "formula", "graph"]
    required: bool = True
    default: AttrValue | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one evaluation takes. `scratch_bytes` is beside inputs and outputs."""

    flops: int
    bytes_read: int
    bytes_written: int
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Halo:
    """What of an input's axis a part of an output's axis needs: windows that slide over it.

    Positions `start` to `stop` (not included) of the output read the positions
    `start * stride - low` to `(stop - 1) * stride - low + reach` of the input's axis, between
    whose neighbors `between` elements are put; what lies outside is padding.
    """

    stride: int
    low: int
    reach: int
    between: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """One index of an operator's index formula, and what cutting it means.

    An operator is described by indices. `operands[i]` says on which axis of input `i` the index
    runs, `output` on which axis of the output (None: not there).

    Args:
        kind: `parallel` (outputs are independent), `sum` (partial outputs are combined by
            `combine`), `halo` (outputs are independent, and windows of `halo` over the input's
            axis make them; the extents of the axes differ), `whole` (must not be cut).
    """

    index: str
    kind: Literal["parallel", "sum", "halo", "whole"]
    operands: tuple[int | None, ...]
    output: int | None
    combine: Literal["", "add", "multiply", "maximum", "minimum", "or", "and"] = ""
    halo: Halo | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an honest result may lie from the float64 reference.

    An element may differ by at most `relative * |reference| + scale`, where `scale` comes from the
    operator: `absolute(inputs)` returns an array that broadcasts against the output, or None.
    Integers and bools must be equal. Both describe exact inputs.

    `propagate(inputs, errors, outputs, attributes)` is for inputs that are themselves only known
    within `errors` (float64 arrays that broadcast against the inputs, None for exact): it returns
    the error of each output against the reference, the operator's own rounding included. Infinity
    means that any result is admissible. Integers and bools have errors too: the farthest admissible
    result. The models are in `catalog/rounding.py`.
    """

    relative: float = 0.0
    absolute: Callable[[Sequence[Array], Attributes], Array | float] | None = None
    propagate: Propagate | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One case of the conformance suite: inputs are made from a seed, never stored."""

    name: str
    inputs: Callable[[np.random.Generator], Sequence[Array]]
    attributes: Attributes = field(default_factory=dict)


class Builder(Protocol):
    """What a decomposition or a gradient may call. Implemented by `gpugoblin.graph.builder`."""

    def spec(self, value: int) -> TensorSpec: ...

    def constant(self, array: Array) -> int: ...

    def add(self, operator: str, inputs: Sequence[int], **attributes: AttrValue) -> int: ...

    def add_many(
        self, operator: str, inputs: Sequence[int], **attributes: AttrValue
    ) -> tuple[int, ...]: ...


@runtime_checkable
class BodyBuilder(Builder, Protocol):
    """What the gradient of an operator with bodies may call beside."""

    def body(
        self,
        inputs: Sequence[TensorSpec],
        write: Callable[[Builder, Sequence[int]], Sequence[int]],
    ) -> Graph:
        """The program that `write` makes on a builder of its own; it returns the outputs."""
        ...

    def derivative(self, body: Graph, wrt: Sequence[int], of: Sequence[int]) -> Graph:
        """The program of the derivatives by the inputs `wrt`: its inputs are those of the body and
        then one seed for each of the outputs `of`."""
        ...


Infer = Callable[[Sequence[TensorSpec], Attributes], tuple[TensorSpec, ...]]
Propagate = Callable[
    [Sequence[Array], Sequence[Array | None], Sequence[Array], Attributes],
    tuple[Array | None, ...],
]
Reference = Callable[[Sequence[Array], Attributes], tuple[Array, ...]]
CostRule = Callable[[Sequence[TensorSpec], Sequence[TensorSpec], Attributes], Cost]
SplitRule = Callable[[Sequence[TensorSpec], Attributes], tuple[Split, ...]]
Decompose = Callable[[Builder, Sequence[int], Attributes], tuple[int, ...]]
Gradient = Callable[
    [Builder, Sequence[int], Sequence[int], Sequence[int | None], Attributes],
    tuple[int | None, ...],
]
"""(builder, inputs, outputs, seeds, attributes) -> the derivative by each input.

A seed is the derivative of the loss by an output: a value of that output's spec, or None for zero;
at least one is not None. A derivative has its input's spec; None is zero everywhere, and what every
input that is not of `FLOATS` gets.
"""


@dataclass(frozen=True, slots=True)
class Operator:
    """One entry of the catalog: all that the rest of the house reads about an operator.

    Args:
        name: lower snake case; with `version` unique in the registry.
        arity: least and most number of inputs.
        attributes: in canonical order (sorted by name).
        infer: output specs from input specs; raises `GraphError` with code and fields.
        cost: flops and bytes of one evaluation.
        reference: NumPy in float64 inside, slow and plainly right; returns the declared dtypes.
        splits: the index formula: which index of which operand is parallel, summed or whole.
        tolerance: per dtype of the output, for class `float32`.
        samples: at least five: empty, size 1, non-contiguous, NaN and infinity where floating.
        decompose: for a composite: the same in primitives.
        grad: the derivative, in operators. An operator with float32 outputs that has neither this
            nor `decompose` is not differentiable.
    """

    name: str
    version: int
    arity: tuple[int, int]
    attributes: tuple[Attribute, ...]
    infer: Infer
    cost: CostRule
    reference: Reference
    splits: SplitRule
    tolerance: Tolerance
    samples: tuple[Sample, ...]
    summary: str
    decompose: Decompose | None = None
    grad: Gradient | None = None

    @property
    def key(self) -> str:
        """`matmul@1`."""
        return f"{self.name}@{self.version}"
