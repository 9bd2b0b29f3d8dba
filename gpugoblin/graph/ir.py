"""The graph: an immutable typed program of operators in static single assignment.

Owns: the data. Checks are in `check.py`, construction in `builder.py`, bytes in `serialize.py`.
Logical shapes only: no strides, no aliasing, no in-place.

Values are numbered: inputs first, then constants, then the outputs of each node in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpugoblin.catalog.spec import Array, AttrValue, TensorSpec

__all__ = ["Constant", "Graph", "Names", "Node"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of at most 1 MiB: its spec and its little-endian bytes."""

    spec: TensorSpec
    data: bytes

    def array(self) -> Array:
        """A read-only array of the constant."""
        import numpy as np

        from gpugoblin.catalog.spec import DTYPES

        return np.frombuffer(self.data, DTYPES[self.spec.dtype]).reshape(self.spec.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One application of an operator. `attributes` are sorted by name, defaults filled in."""

    operator: str
    version: int
    attributes: tuple[tuple[str, AttrValue], ...]
    inputs: tuple[int, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def attrs(self) -> dict[str, AttrValue]:
        return dict(self.attributes)


@dataclass(frozen=True, slots=True)
class Graph:
    """A program. `outputs` are value numbers; one value may be several outputs."""

    inputs: tuple[TensorSpec, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    def specs(self) -> tuple[TensorSpec, ...]:
        """The spec of every value, by number."""
        known = [*self.inputs, *(constant.spec for constant in self.constants)]
        for node in self.nodes:
            known.extend(node.outputs)
        return tuple(known)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        specs = self.specs()
        return tuple(specs[value] for value in self.outputs)

    def numbered_nodes(self) -> Iterator[tuple[int, Node]]:
        """Each node with the number of its first output."""
        value = len(self.inputs) + len(self.constants)
        for node in self.nodes:
            yield value, node
            value += len(node.outputs)


@dataclass(frozen=True, slots=True)
class Names:
    """The side table: what people call things. Stays with the client and the lab node."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    lines: dict[int, str] = field(default_factory=dict)
