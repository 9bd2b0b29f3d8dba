"""The rules of a formula tree. Owns: limits, single assignment, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from gpugoblin.catalog.formula import (
    MAX_FORMULA_INPUTS,
    MAX_FORMULA_NODES,
    Formula,
    FormulaNode,
)
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import GraphError

__all__ = ["check_formula"]


def check_formula(formula: Formula, inputs: Sequence[str]) -> tuple[str, ...]:
    """The dtype of every node, for inputs of the given dtypes; the last is the result's.

    A tree has at most 256 nodes over at most 32 inputs; each input is named by exactly one node,
    every node but the last is used, and no dtype is promoted.

    Raises:
        GraphError: formula_malformed, over_limit, dtype_unsupported.
    """
    if type(formula.nodes) is not tuple or not formula.nodes:
        _bad(0, "it has no nodes")
    _limit("nodes", len(formula.nodes), MAX_FORMULA_NODES)
    _limit("inputs", len(inputs), MAX_FORMULA_INPUTS)
    dtypes: list[str] = []
    used = [False] * len(formula.nodes)
    named = [False] * len(inputs)
    for number, node in enumerate(formula.nodes):
        _check_node(number, node)
        for operand in node.operands:
            used[operand] = True
        if node.function == "input":
            if not 0 <= node.value < len(inputs) or named[node.value]:
                _bad(number, f"input {node.value} is not there, or is named twice")
            named[node.value] = True
        dtypes.append(_dtype(number, node, dtypes, inputs))
    if not all(used[:-1]):
        _bad(used.index(False), "the node is not used")
    if not all(named):
        _bad(len(used) - 1, f"input {named.index(False)} is not used")
    return tuple(dtypes)


def _check_node(number: int, node: FormulaNode) -> None:
    if type(node) is not FormulaNode or type(node.function) is not str:
        _bad(number, "it is not a formula node")
    if type(node.operands) is not tuple or any(
        type(operand) is not int or not 0 <= operand < number for operand in node.operands
    ):
        _bad(number, "an operand is not an earlier node")
    if type(node.value) is not int or type(node.dtype) is not str:
        _bad(number, "its value or dtype is of the wrong type")
    if node.function not in ("const", "cast") and node.dtype:
        _bad(number, "it carries a dtype")
    if node.function in ("const", "cast") and node.dtype not in DTYPES:
        _bad(number, f"the dtype {node.dtype[:16]!r} is unknown")
    if node.function not in ("const", "input") and node.value:
        _bad(number, "it carries a value")
    if node.function == "const":
        width = DTYPES[node.dtype].itemsize * 8
        most = 1 if node.dtype == "bool" else 2**width - 1
        if not 0 <= node.value <= most:
            _bad(number, f"the bit pattern does not fit {node.dtype}")


def _dtype(number: int, node: FormulaNode, dtypes: Sequence[str], inputs: Sequence[str]) -> str:
    operands = [dtypes[operand] for operand in node.operands]
    match node.function:
        case "input" | "const":
            if operands:
                _bad(number, f"{node.function} takes no operands")
            return inputs[node.value] if node.function == "input" else node.dtype
        case "cast":
            if len(operands) != 1 or operands[0] == node.dtype:
                _bad(number, "a cast takes one operand of another dtype")
            return node.dtype
    function = SCALARS.get(node.function)
    if function is None:
        _bad(number, f"there is no scalar function {node.function[:32]!r}")
    if len(operands) != function.arity:
        _bad(number, f"{node.function} takes {function.arity} operands, not {len(operands)}")
    result = function.dtype_rule(operands)
    if result is None:
        raise GraphError(
            "dtype_unsupported",
            operator=f"{node.function} (formula node {number})",
            dtypes=", ".join(operands),
            accepted="one dtype of " + ", ".join(function.accepts),
        )
    return result


def _limit(what: str, value: int, limit: int) -> None:
    if value > limit:
        raise GraphError("over_limit", where="a formula", what=what, value=value, limit=limit)


def _bad(node: int, reason: str) -> NoReturn:
    raise GraphError("formula_malformed", node=node, reason=reason)
