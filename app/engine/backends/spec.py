"""What a backend is to the engine.

Owns: the shape of a kernel and of a backend. Must not: know any one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from app.engine.context import Context
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec
from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.graph.ir import Graph, Node

__all__ = ["Backend", "ExactBackend", "Executable", "Kernel", "KernelKeeper", "Served", "View"]

Kernel = Callable[[Sequence[Array], Sequence[Array], Attributes, Context], None]
"""Inputs, outputs to fill, attributes, context. Raises KernelError for values that it refuses."""

View = Callable[[Array, Attributes], Array]
"""The result of an operator as a view of its one input."""


class Executable(Protocol):
    """A compiled graph, for tensors of exactly the given specs.

    `arena_bytes` is host memory that a run is given; `private_bytes` is all that it takes beside
    the inputs and outputs of the host; `position` is the node that an error belongs to.
    """

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def arena_bytes(self) -> int: ...

    @property
    def private_bytes(self) -> int: ...

    @property
    def position(self) -> int: ...

    def prepare(self) -> None:
        """Takes what a run needs of the card. Raises MemoryError where it is not there now."""
        ...

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], arena: Array, context: Context
    ) -> None:
        """Fills `outputs`. Raises KernelError, Cancelled."""
        ...

    def release(self) -> None:
        """Gives back what it holds outside of Python."""
        ...


class Served(Protocol):
    """What a session needs of a card."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> frozenset[str]:
        """Numeric classes that it serves; `exact` means that of floats too."""
        ...

    @property
    def dtypes(self) -> Dtypes:
        """Dtypes that it computes with. A graph that needs others is refused."""
        ...

    def compile(self, graph: Graph, numeric_class: str) -> Executable:
        """Raises EngineError `task_refused` for what it does not serve."""
        ...

    def driver(self) -> str:
        """Names and versions of what computes, as one word."""
        ...


class Backend(Served, Protocol):
    """A backend of NumPy kernels, which `app.engine.compile` compiles for."""

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


@runtime_checkable
class ExactBackend(Protocol):
    """A backend that serves class `exact` on float32 too (`gpugoblin.catalog.exact`). Its chains
    are given formulas of basic functions only, and contract nothing."""

    @property
    def exact_kernels(self) -> Mapping[str, Kernel]:
        """In the place of `kernels`."""
        ...


@runtime_checkable
class KernelKeeper(Protocol):
    """A card whose kernels have names, may be refused, and can be kept compiled."""

    def prepare(self, refused: Sequence[str], alone: Sequence[str], compiled: bytes | None) -> bool:
        """Before the first graph. True where the driver takes what was compiled."""
        ...

    def export(self) -> bytes:
        """What was compiled, as the driver writes it."""
        ...

    def running(self) -> tuple[str, ...]:
        """The names of the kernels that the card was given and has not answered for."""
        ...
