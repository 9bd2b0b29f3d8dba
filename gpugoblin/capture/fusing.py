"""Which elementwise nodes become one formula.

Owns: the grouping. A node joins the formula of its consumers when all of them are in that one
formula, it has the formula's own shape (so nothing is computed more often than written), and the
formula stays within its limits of nodes and inputs; otherwise it starts a formula of its own. That
all consumers are inside is also why no group can depend on itself through a node outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpugoblin.capture.expression import LITERAL, Expression, Value
from gpugoblin.catalog.formula import MAX_FORMULA_INPUTS, MAX_FORMULA_NODES

__all__ = ["Group", "group_elementwise"]


@dataclass(slots=True)
class Group:
    """A formula in the making: its last node, its nodes, and the values that it reads."""

    root: Expression
    nodes: list[Expression] = field(default_factory=list)
    reads: dict[Value, None] = field(default_factory=dict)
    literals: set[Value] = field(default_factory=set)

    def try_join(self, node: Expression) -> bool:
        """Takes `node` in, unless a limit is in the way."""
        own = Value(node, 0)
        operands = set(node.operands)
        literals = {value for value in operands if value.node.operator == LITERAL}
        reads = (self.reads.keys() | operands) - literals - {own}
        size = len(self.nodes) + 1 + len(reads) + len(self.literals | literals)
        if len(reads) > MAX_FORMULA_INPUTS or size > MAX_FORMULA_NODES:
            return False
        self.nodes.append(node)
        self.reads.pop(own, None)
        self.reads.update((value, None) for value in node.operands if value not in literals)
        self.literals |= literals
        return True


def group_elementwise(
    nodes: Sequence[Expression], outputs: Sequence[Value]
) -> dict[Expression, Group]:
    """The group of every elementwise node of `nodes` (operands first), literals left out."""
    consumers: dict[Expression, list[Expression]] = {}
    for node in nodes:
        for value in node.operands:
            consumers.setdefault(value.node, []).append(node)
    kept = {value.node for value in outputs}
    groups: dict[Expression, Group] = {}
    for node in reversed(nodes):
        if not node.elementwise or node.operator == LITERAL:
            continue
        readers = consumers.get(node, [])
        if node not in kept and all(reader in groups for reader in readers):
            candidates = {id(groups[reader]): groups[reader] for reader in readers}
            group = next(iter(candidates.values()))
            same_shape = group.root.specs[0].shape == node.specs[0].shape
            if len(candidates) == 1 and same_shape and group.try_join(node):
                groups[node] = group
                continue
        own = Group(node)
        own.try_join(node)
        groups[node] = own
    return groups
