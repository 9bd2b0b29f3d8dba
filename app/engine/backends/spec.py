"""What a backend is to the engine.

Owns: the shape of a kernel and of a backend. Must not: know any one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.engine.context import Context
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec
from gpugoblin.graph.ir import Node

__all__ = ["Backend", "Kernel", "View"]

Kernel = Callable[[Sequence[Array], Sequence[Array], Attributes, Context], None]
"""Inputs, outputs to fill, attributes, context. Raises KernelError for values that it refuses."""

View = Callable[[Array, Attributes], Array]
"""The result of an operator as a view of its one input."""


class Backend(Protocol):
    """A card's way to compute."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> frozenset[str]:
        """Numeric classes that it serves."""
        ...

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """A kernel for every primitive of the catalog, except `formula@1`, whose chains are fused,
        and for the composites that it has one for; the others run as their decompositions."""
        ...

    @property
    def views(self) -> Mapping[str, View]:
        """Operators that need no kernel where their input stays in place for the whole task."""
        ...

    def chain(
        self,
        nodes: Sequence[Node],
        results: Sequence[int],
        reads: Sequence[int],
        kept: Sequence[int],
        specs: Sequence[TensorSpec],
    ) -> Callable[[Sequence[Array], Sequence[Array], Context], None]:
        """One step for a chain of `formula` nodes of one shape.

        Args:
            results: the value that each node makes.
            reads: values that come from outside, in the order in which they will be given.
            kept: results that must be written, in the order of the arrays to fill.
            specs: of all values.
        """
        ...

    def readable(self, operator: str, array_like: Array) -> bool:
        """May a kernel of `operator` read an operand that lies in memory like this view?"""
        ...

    def driver(self) -> str:
        """Names and versions of what computes, as one word."""
        ...
