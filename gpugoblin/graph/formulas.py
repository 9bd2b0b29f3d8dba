"""The canonical form of one formula: its operands, their order, and its tree.

Owns: the rules, each of which keeps every bit: an operand that is only spread out is read before it
is; a scalar constant is part of the tree; operands of commutative functions stand in the order of
their hashes. Must not: compute, as a formula rounds once, at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from blake3 import blake3

from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.formula_build import FormulaBuilder, const_bits
from gpugoblin.catalog.spec import AttrValue
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Constant, Node

__all__ = ["COMMUTATIVE", "Emit", "arrange", "narrower", "tree_hashes"]

COMMUTATIVE: Final = frozenset({"add", "mul", "eq", "ne", "and", "or", "xor"})
"""min and max are not: of 0.0 and -0.0 they give the one that stands at a certain side."""

_NEUTRAL: Final = {
    "max": FormulaNode("const", value=const_bits("float32", -math.inf), dtype="float32"),
    "min": FormulaNode("const", value=const_bits("float32", math.inf), dtype="float32"),
}

Emit = Callable[
    [GraphBuilder, str, int | None, tuple[int, ...], dict[str, AttrValue]], tuple[int, ...]
]


def arrange(
    builder: GraphBuilder,
    tree: Formula,
    operands: Sequence[int],
    hashes: Sequence[bytes],
    emit: Emit,
) -> tuple[int, ...] | None:
    """The formula in its canonical form.

    Args:
        hashes: what each operand computes; equal operands have equal hashes.
        emit: makes a node by the rules.

    Returns:
        None when the formula is in its canonical form already.
    """
    shape = _shape(builder, operands)
    read = _unspread(builder, operands, shape)
    constants = _scalars(builder, read, shape)
    draft, root = _ordered(tree, read, hashes, constants)
    top = draft.nodes[-1]
    if root is not None:
        value = read[root]
        if builder.spec(value).shape == shape:
            return (value,)
        return emit(builder, "broadcast", None, (value,), {"shape": shape})
    used = list(dict.fromkeys(node.value for node in draft.nodes if node.function == "input"))
    if not used:
        return None
    places = {number: place for place, number in enumerate(used)}
    found = Formula(tuple(_renumbered(node, places) for node in draft.nodes))
    values = tuple(read[number] for number in used)
    if _shape(builder, values) != shape:
        return None
    if len(found.nodes) == 2 and top.function == "cast":
        return emit(builder, "cast", None, values, {"dtype": top.dtype})
    source = builder.source(values[0])
    if len(values) == 1 and isinstance(source, Node) and source.operator == "reshape":
        # Reshapes stand behind what is computed element by element.
        inner = emit(builder, "formula", None, source.inputs, {"tree": found})
        return emit(builder, "reshape", None, inner, {"shape": shape})
    if found == tree and values == tuple(operands):
        return None
    return builder.apply("formula", None, values, {"tree": found})


def tree_hashes(tree: Formula, operands: Sequence[bytes]) -> list[bytes]:
    """What each node of a tree computes, from the hashes of its operands; the order of operands of
    commutative functions does not count."""
    found: list[bytes] = []
    for node in tree.nodes:
        if node.function == "input":
            found.append(operands[node.value])
            continue
        given = [found[operand] for operand in node.operands]
        if node.function in COMMUTATIVE:
            given.sort()
        words = f"{node.function} {node.value} {node.dtype} "
        found.append(blake3(words.encode() + b"".join(given)).digest())
    return found


def _shape(builder: GraphBuilder, operands: Sequence[int]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(builder.spec(value).shape for value in operands))


def _unspread(builder: GraphBuilder, operands: Sequence[int], shape: tuple[int, ...]) -> list[int]:
    """Operands before they were broadcast, wherever the formula's shape stays."""
    read = list(operands)
    for number in range(len(read)):
        while (before := narrower(builder, read[number])) is not None:
            tried = [*read[:number], before, *read[number + 1 :]]
            if _shape(builder, tried) != shape:
                break
            read = tried
    return read


def narrower(builder: GraphBuilder, value: int) -> int | None:
    """What a broadcast, or a reshape to leading axes of 1, was made from; with one such axis less
    where it was made from something else."""
    source = builder.source(value)
    if not isinstance(source, Node) or source.operator not in ("broadcast", "reshape"):
        return None
    (before,) = source.inputs
    if source.operator == "broadcast":
        return before
    shape, narrow = builder.spec(value).shape, builder.spec(before).shape
    added = len(shape) - len(narrow)
    if added > 0 and shape == (1,) * added + narrow:
        return before
    if shape[:1] != (1,):
        return None
    return builder.add("reshape", [before], shape=shape[1:])


def _scalars(
    builder: GraphBuilder, read: Sequence[int], shape: tuple[int, ...]
) -> dict[int, FormulaNode]:
    """Operands that are constants of one element, as nodes of the tree."""
    found: dict[int, FormulaNode] = {}
    for number, value in enumerate(read):
        source = builder.source(value)
        if isinstance(source, Constant) and source.spec.count == 1:
            bits = int.from_bytes(source.data, "little")
            found[number] = FormulaNode("const", value=bits, dtype=source.spec.dtype)
    kept = [value for number, value in enumerate(read) if number not in found]
    return found if kept and _shape(builder, kept) == shape else {}


def _ordered(
    tree: Formula, read: Sequence[int], hashes: Sequence[bytes], constants: dict[int, FormulaNode]
) -> tuple[Formula, int | None]:
    """The tree with its operands in order; also the number of the operand, where it is just one."""
    names = tree_hashes(tree, hashes)
    first = {value: number for number, value in reversed(list(enumerate(read)))}
    draft = FormulaBuilder()
    made: list[int] = []
    inputs: dict[int, int] = {}
    for node in tree.nodes:
        if node.function == "input":
            made.append(_leaf(draft, first[read[node.value]], constants, inputs))
            continue
        given = (
            sorted(node.operands, key=names.__getitem__)
            if (node.function in COMMUTATIVE)
            else list(node.operands)
        )
        operands = tuple(made[operand] for operand in given)
        kept = _without_effect(node.function, operands, draft)
        if kept is not None:
            made.append(kept)
            continue
        made.append(draft.add(FormulaNode(node.function, operands, node.value, node.dtype)))
    return draft.build(made[-1]), inputs.get(made[-1])


def _without_effect(function: str, operands: tuple[int, ...], draft: FormulaBuilder) -> int | None:
    """The operand that a function gives whatever its numbers are: of where with two equal cases, of
    max beside minus infinity, of min beside infinity (a NaN stays in all)."""
    if function == "where" and operands[1] == operands[2]:
        return operands[1]
    if function not in _NEUTRAL:
        return None
    for one, other in (operands, operands[::-1]):
        if draft.node(one) == _NEUTRAL[function]:
            return other
    return None


def _leaf(
    draft: FormulaBuilder,
    number: int,
    constants: dict[int, FormulaNode],
    inputs: dict[int, int],
) -> int:
    if number in constants:
        return draft.add(constants[number])
    made = draft.input(number)
    inputs[made] = number
    return made


def _renumbered(node: FormulaNode, places: dict[int, int]) -> FormulaNode:
    if node.function != "input":
        return node
    return FormulaNode("input", value=places[node.value])
