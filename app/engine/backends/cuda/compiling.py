"""Graph to a program for an NVIDIA card. Owns the choice between kernels and libraries.

A product whose operands were both rounded to a short format goes to the units for that format:
every such number is one of TF32 too, so nothing is lost, and its sums stay float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.card.product import Problem
from app.engine.backends.card.stages import Stage
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from app.engine.backends.cuda.program import CudaProgram
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["compile_card", "rounded_values"]

_ROUNDING: Final = {
    "round_tf32": "tf32",
    "round_bfloat16": "bfloat16",
    "round_float16": "float16",
}


def compile_card(graph: Graph, machine: Machine, numeric_class: str = "float32") -> CudaProgram:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for what this backend does not serve.
    """
    expanded = require_served(graph, numeric_class)
    formats = rounded_values(expanded.graph)

    def choose(node: Node, specs: Sequence[TensorSpec]) -> Emission | None:
        if node.operator != "matmul":
            return None
        return _product(node, specs, formats)

    return CudaProgram(machine, lay_out(expanded, choose))


def rounded_values(graph: Graph) -> Mapping[int, str]:
    """The values that are results of a rounding to a short format, with the format's name."""
    found: dict[int, str] = {}
    for first, node in graph.numbered_nodes():
        tree = node.attrs.get("tree") if node.operator == "formula" else None
        if isinstance(tree, Formula) and tree.nodes[-1].function in _ROUNDING:
            found[first] = _ROUNDING[tree.nodes[-1].function]
    return found


def _product(
    node: Node, specs: Sequence[TensorSpec], formats: Mapping[int, str]
) -> Emission | None:
    problem = Problem.of(node.attrs, specs, node.outputs[0])
    if problem.kind != "float32" or not node.outputs[0].count or not problem.k:
        return None
    short = all(value in formats for value in node.inputs)
    gemm = Gemm(problem, "tf32" if short else "float32")
    return Emission((Stage(b"", (0, 0, 0), (0, 1, 2), call=gemm),))
