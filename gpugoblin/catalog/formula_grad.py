"""Derivatives of a formula, as formulas.

Owns: the reverse sweep through one tree. The rules of the functions are in
`catalog/scalar_grads.py`; what to do with the trees is the operator's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpugoblin.catalog.casting import STORAGE
from gpugoblin.catalog.formula import (
    MAX_FORMULA_INPUTS,
    MAX_FORMULA_NODES,
    Formula,
    FormulaNode,
)
from gpugoblin.catalog.formula_build import FormulaBuilder, const_value
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import FLOATS
from gpugoblin.errors import GraphError

__all__ = ["Derivative", "derivatives"]


@dataclass(frozen=True, slots=True)
class Derivative:
    """The derivative by one input.

    Args:
        tree: over `reads`, in order.
        reads: numbers of the formula's inputs; the number after the last one is the seed.
    """

    tree: Formula
    reads: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """Is the tree within the limits of a formula?"""
        return len(self.tree.nodes) <= MAX_FORMULA_NODES and len(self.reads) <= MAX_FORMULA_INPUTS


def derivatives(formula: Formula, inputs: Sequence[str]) -> tuple[Derivative | None, ...]:
    """For each input its derivative times the seed, or None where that is zero everywhere.

    Args:
        inputs: the dtypes of the inputs; only floats that are computed with have derivatives.
    """
    dtypes = check_formula(formula, inputs)
    if any(node.function == "cast" and node.dtype in STORAGE for node in formula.nodes):
        reason = "a stored float has no derivative: round with round_float16 or round_bfloat16"
        raise GraphError("not_differentiable", operator="formula", reason=reason)
    builder = FormulaBuilder()
    nodes: list[int] = []
    for node in formula.nodes:
        nodes.append(_again(builder, node, [nodes[operand] for operand in node.operands]))
    seeds: dict[int, int] = {}
    if dtypes[-1] in FLOATS:
        seeds[len(nodes) - 1] = builder.input(len(inputs))
    found: list[Derivative | None] = [None] * len(inputs)
    for number in range(len(nodes) - 1, -1, -1):
        node, seed = formula.nodes[number], seeds.get(number)
        if seed is None:
            continue
        if node.function == "input":
            found[node.value] = _renumbered(builder.build(seed))
        elif node.function == "cast":
            _cast_back(builder, node, dtypes, seeds, seed)
        elif node.function in SCALARS:
            rule = SCALARS[node.function].gradient
            if rule is None:
                raise LookupError(f"{node.function} gives a float but has no derivative")
            builder.floating = dtypes[number]
            operands = [nodes[operand] for operand in node.operands]
            shares = rule(builder, operands, nodes[number], seed)
            for operand, share in zip(node.operands, shares, strict=True):
                if share is None or dtypes[operand] not in FLOATS:
                    continue
                known = seeds.get(operand)
                seeds[operand] = share if known is None else builder.call("add", known, share)
    return tuple(found)


def _cast_back(
    builder: FormulaBuilder,
    node: FormulaNode,
    dtypes: Sequence[str],
    seeds: dict[int, int],
    seed: int,
) -> None:
    """Between float32 and float64 the seed is cast the other way; other casts stop it."""
    (operand,) = node.operands
    if dtypes[operand] in FLOATS and node.dtype in FLOATS:
        share, known = builder.cast(seed, dtypes[operand]), seeds.get(operand)
        seeds[operand] = share if known is None else builder.call("add", known, share)


def _again(builder: FormulaBuilder, node: FormulaNode, operands: Sequence[int]) -> int:
    match node.function:
        case "input":
            return builder.input(node.value)
        case "const":
            return builder.const(node.dtype, const_value(node).item())
        case "cast":
            return builder.cast(operands[0], node.dtype)
    return builder.call(node.function, *operands)


def _renumbered(tree: Formula) -> Derivative:
    """Inputs that the tree does not read are left out; the others keep their order."""
    reads = tuple(sorted(node.value for node in tree.nodes if node.function == "input"))
    places = {number: place for place, number in enumerate(reads)}
    nodes = tuple(
        replace(node, value=places[node.value]) if node.function == "input" else node
        for node in tree.nodes
    )
    return Derivative(Formula(nodes), reads)
