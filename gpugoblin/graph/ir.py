"""The graph, and what people call its parts.

Owns: the side table of names. The data is `gpugoblin.catalog.program`, as it is also what the body
of a loop is; checks are in `check.py`, construction in `builder.py`, bytes in `serialize.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpugoblin.catalog.program import Constant, Graph, Node

__all__ = ["Constant", "Graph", "Names", "Node"]


@dataclass(frozen=True, slots=True)
class Names:
    """The side table: what people call things. Stays with the client and the lab node."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    lines: dict[int, str] = field(default_factory=dict)
