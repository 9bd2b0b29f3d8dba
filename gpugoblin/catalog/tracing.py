"""A decomposition written down: its primitives in order, and what follows from them.

Owns: running a decomposition on specs, and reading shape, cost, reference, error bound and splits
off the result. Must not: build graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.primitives import primitive
from gpugoblin.catalog.spec import (
    DTYPES,
    Array,
    Attributes,
    AttrValue,
    Cost,
    Decompose,
    Operator,
    Split,
    TensorSpec,
)
from gpugoblin.catalog.widening import widen
from gpugoblin.errors import GraphError

__all__ = ["Step", "Trace", "trace"]


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive; its outputs are numbered from `first`."""

    operator: Operator
    inputs: tuple[int, ...]
    attributes: Attributes
    first: int
    count: int

    @property
    def results(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(slots=True)
class Trace:
    """A `Builder` that writes down what it is asked for."""

    inputs: int
    specs: list[TensorSpec]
    constants: dict[int, Array] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()

    # -- the builder -----------------------------------------------------------------------------

    def spec(self, value: int) -> TensorSpec:
        return self.specs[value]

    def constant(self, array: Array) -> int:
        dtype = next(name for name, kind in DTYPES.items() if kind == array.dtype)
        self.constants[len(self.specs)] = array
        self.specs.append(TensorSpec(dtype, array.shape))
        return len(self.specs) - 1

    def add(self, operator: str, inputs: Sequence[int], **attributes: AttrValue) -> int:
        return self.add_many(operator, inputs, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[int], **attributes: AttrValue
    ) -> tuple[int, ...]:
        declared = primitive(operator)
        given = dict(normalize_attributes(declared, attributes))
        outputs = declared.infer([self.specs[value] for value in inputs], given)
        first = len(self.specs)
        self.steps.append(Step(declared, tuple(inputs), given, first, len(outputs)))
        self.specs.extend(outputs)
        return tuple(range(first, first + len(outputs)))

    # -- what follows ----------------------------------------------------------------------------

    def output_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(self.specs[value] for value in self.outputs)

    def cost(self) -> Cost:
        """The sum of the primitives' costs; everything between is scratch."""
        flops = read = written = largest = between = 0
        for step in self.steps:
            outputs = step.results
            specs = [self.specs[value] for value in step.inputs]
            one = step.operator.cost(specs, [self.specs[v] for v in outputs], step.attributes)
            flops, read, written = (
                flops + one.flops,
                read + one.bytes_read,
                written + one.bytes_written,
            )
            largest = max(largest, one.scratch_bytes)
            between += sum(self.specs[v].nbytes for v in outputs if v not in self.outputs)
        return Cost(flops, read, written, largest + between)

    def evaluate(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """Every value, with float32 kept in float64."""
        values = {place: widen(a, self.specs[place].dtype) for place, a in enumerate(inputs)}
        values.update((n, widen(a, self.specs[n].dtype)) for n, a in self.constants.items())
        for step in self.steps:
            operands = [values[value] for value in step.inputs]
            results = step.operator.reference(operands, step.attributes)
            for value, result in zip(step.results, results, strict=True):
                values[value] = widen(result, self.specs[value].dtype)
        return values

    def errors(
        self, values: dict[int, Array], given: Sequence[Array | None]
    ) -> tuple[Array | None, ...]:
        """The errors of the outputs, for inputs within `given`."""
        known: dict[int, Array | None] = dict(enumerate(given))
        for step in self.steps:
            propagate = step.operator.tolerance.propagate
            if propagate is None:
                continue
            results = step.results
            found = propagate(
                [values[value] for value in step.inputs],
                [known.get(value) for value in step.inputs],
                [values[value] for value in results],
                step.attributes,
            )
            known.update(zip(results, found, strict=True))
        return tuple(known.get(value) for value in self.outputs)

    def splits(self, whole: Sequence[tuple[int, int]] = ()) -> tuple[Split, ...]:
        """The index formula. `whole`: (input, axis) that an attribute keeps from being cut."""
        return _Indices(self, whole).splits()


def trace(decompose: Decompose, specs: Sequence[TensorSpec], attributes: Attributes) -> Trace:
    """The trace of a decomposition on inputs of the given specs.

    Raises:
        GraphError: what its primitives raise.
    """
    found = Trace(len(specs), list(specs))
    found.outputs = tuple(decompose(found, range(len(specs)), attributes))
    if not found.outputs:
        raise GraphError("graph_malformed", where="a decomposition", reason="it has no outputs")
    return found


class _Indices:
    """The index formula of a composite: axes that its primitives run over together are one index,
    which may be cut where each of them may be cut there."""

    def __init__(self, traced: Trace, whole: Sequence[tuple[int, int]]) -> None:
        self._trace = traced
        self._parents: dict[tuple[int, int], tuple[int, int]] = {}
        self._whole: set[tuple[int, int]] = set(whole)
        for value, array in traced.constants.items():
            self._whole.update((value, axis) for axis, n in enumerate(array.shape) if n > 1)
        for step in traced.steps:
            self._read(step)

    def _read(self, step: Step) -> None:
        specs = [self._trace.specs[value] for value in step.inputs]
        for split in step.operator.splits(specs, step.attributes):
            members = [
                (value, axis)
                for value, axis in zip(step.inputs, split.operands, strict=True)
                if axis is not None
            ]
            if split.output is not None:
                members.extend((value, split.output) for value in step.results)
            for member in members:
                self._join(members[0], member)
            if split.kind != "parallel":
                self._whole.update(members)

    def _root(self, axis: tuple[int, int]) -> tuple[int, int]:
        while (parent := self._parents.get(axis, axis)) != axis:
            axis = parent
        return axis

    def _join(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parents[max(one, other)] = min(one, other)

    def splits(self) -> tuple[Split, ...]:
        traced = self._trace
        whole = {self._root(axis) for axis in self._whole}
        ranks = [traced.specs[value].rank for value in traced.outputs]
        names = list(dict.fromkeys(self._axes(range(traced.inputs), traced.outputs)))
        found: list[Split] = []
        for number, index in enumerate(names):
            places = [
                [
                    axis
                    for axis in range(traced.specs[value].rank)
                    if self._root((value, axis)) == index
                ]
                for value in range(traced.inputs)
            ]
            results = [
                [axis for axis in range(rank) if self._root((value, axis)) == index]
                for value, rank in zip(traced.outputs, ranks, strict=True)
            ]
            clear = all(len(axes) <= 1 for axes in places) and results[0] != []
            clear = clear and all(axes == results[0] for axes in results) and len(results[0]) == 1
            if clear and index not in whole:
                operands = tuple(axes[0] if axes else None for axes in places)
                found.append(Split(f"i{number}", "parallel", operands, results[0][0]))
                continue
            found.extend(self._kept_whole(number, places, results[0]))
        return tuple(found)

    def _axes(self, inputs: Sequence[int], outputs: Sequence[int]) -> list[tuple[int, int]]:
        return [
            self._root((value, axis))
            for value in (*outputs, *inputs)
            for axis in range(self._trace.specs[value].rank)
        ]

    def _kept_whole(
        self, number: int, places: Sequence[Sequence[int]], results: Sequence[int]
    ) -> list[Split]:
        """Axes that must stay whole, each by itself."""
        count = len(places)
        found = [Split(f"i{number}o{axis}", "whole", (None,) * count, axis) for axis in results]
        for operand, axes in enumerate(places):
            for axis in axes:
                operands = tuple(axis if n == operand else None for n in range(count))
                found.append(Split(f"i{number}x{operand}a{axis}", "whole", operands, None))
        return found
