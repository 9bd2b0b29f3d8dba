"""A formula node by node in its own dtypes: the meaning of class `exact`.

Owns: that evaluation. Each operation is one NumPy call on float32, rounded once: nothing is fused
or contracted. Give it lowered trees (`catalog/lowering.py`): other functions are the library's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array

__all__ = ["evaluate_plain"]


def evaluate_plain(tree: Formula, inputs: Sequence[Array]) -> Array:
    """The result on inputs that broadcast; not broadcast itself where it depends on none."""
    last = {operand: n for n, node in enumerate(tree.nodes) for operand in node.operands}
    known: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for number, node in enumerate(tree.nodes):
            operands = [known[operand] for operand in node.operands]
            match node.function:
                case "input":
                    known[number] = inputs[node.value]
                case "const":
                    known[number] = const_value(node)
                case "cast":
                    known[number] = np.asarray(cast_array(operands[0], node.dtype))
                case function:
                    known[number] = np.asarray(SCALARS[function].evaluate(*operands))
            for operand in node.operands:
                if last[operand] == number:
                    known.pop(operand, None)
    return known[len(tree.nodes) - 1]
