"""The data of a program: an immutable typed graph of operators in static single assignment.

Owns: the data alone. It stands in the catalog, as an attribute of an operator may be a program of
its own (the body of a loop); `gpugoblin.graph` checks, builds, encodes and runs programs. Logical
shapes only: no strides, no aliasing, no in-place.

Values are numbered: inputs first, then constants, then the outputs of each node in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpugoblin.catalog.spec import Array, AttrValue, TensorSpec

__all__ = ["Constant", "Graph", "Node", "specs_within"]


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

    def bodies(self) -> tuple[Graph, ...]:
        """The programs among the attributes."""
        return tuple(value for _, value in self.attributes if isinstance(value, Graph))


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


def specs_within(graph: Graph) -> Iterator[TensorSpec]:
    """The spec of every value, and of those of all bodies."""
    yield from graph.specs()
    for node in graph.nodes:
        for body in node.bodies():
            yield from specs_within(body)
