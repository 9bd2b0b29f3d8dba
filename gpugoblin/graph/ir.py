"""The graph, and what people call its parts.

Owns: the side table of names. The data is `gpugoblin.catalog.program`, as it is also what the body
of a loop is; checks are in `check.py`, construction in `builder.py`, bytes in `serialize.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpugoblin.catalog.program import Constant, Graph, Node

__all__ = ["Constant", "Graph", "Names", "Node", "View"]


@dataclass(frozen=True, slots=True)
class Names:
    """The side table: what people call things. Stays with the client and the lab node."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    lines: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """A graph with what people call things. `print` gives a line a node, `svg` a picture."""

    graph: Graph
    names: Names = field(default_factory=Names)

    def __str__(self) -> str:
        from gpugoblin.graph.show import show_text

        return show_text(self.graph, self.names)

    def svg(self) -> str:
        """The text of an SVG file.

        Raises:
            GraphError: over_limit, for more than 2,000 boxes.
        """
        from gpugoblin.graph.draw import show_svg

        return show_svg(self.graph, self.names)

    def _repr_svg_(self) -> str:
        return self.svg()
