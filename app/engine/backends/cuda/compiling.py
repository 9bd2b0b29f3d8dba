"""Graph to a program for an NVIDIA card. Owns the choice between kernels and libraries.

A product whose operands were both rounded to a short format goes to the units for that format
(`shortening.py`), or for TF32, which has every number of the shorter ones: nothing is lost, and its
sums stay float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.layout import has_floats, lay_out, require_served
from app.engine.backends.card.narrow import HALVES
from app.engine.backends.card.product import Problem
from app.engine.backends.card.reduction import reduce
from app.engine.backends.card.shortening import rounded_values, shortened
from app.engine.backends.card.stages import Stage, placed
from app.engine.backends.card.target import Target
from app.engine.backends.card.unrolling import unrolled
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from app.engine.backends.cuda.program import CudaProgram
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["CARD", "compile_card", "multiplied"]

CARD: Final = Target(divides=True)
"""What NVRTC promises with the options of `compiler.py`."""


def compile_card(graph: Graph, machine: Machine, numeric_class: str = "float32") -> CudaProgram:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for what this backend does not serve.
    """
    expanded = require_served(graph, numeric_class)
    if numeric_class == "exact" and has_floats(expanded):
        card = replace(CARD, ordered=True)
        return CudaProgram(machine, lay_out(expanded, lambda node, specs: None, card))
    expanded = shortened(expanded)
    formats = rounded_values(expanded.graph)

    def choose(node: Node, specs: Sequence[TensorSpec]) -> Emission | None:
        if node.operator == "conv":
            return unrolled(node.attrs, specs, node.outputs, multiplied)
        return _product(node, specs, formats) if node.operator == "matmul" else None

    return CudaProgram(machine, lay_out(expanded, choose, CARD))


def _product(
    node: Node, specs: Sequence[TensorSpec], formats: Mapping[int, str]
) -> Emission | None:
    problem = Problem.of(node.attrs, specs, node.outputs[0])
    if problem.kind != "float32" or not node.outputs[0].count or not problem.k:
        return None
    form = "tf32" if all(value in formats for value in node.inputs) else "float32"
    if specs[0].dtype in HALVES:
        form = specs[0].dtype
    return multiplied(problem, form)


def multiplied(problem: Problem, form: str = "float32") -> Emission:
    """A product by cuBLAS, of tensor 0 and tensor 1 into tensor 2."""
    gemm = Gemm.of(problem, form)
    if gemm.parts == 1:
        return Emission((Stage(b"", (0, 0, 0), (0, 1, 2), call=gemm),))
    shape = (gemm.parts, problem.m, problem.n)
    parts, out = TensorSpec("float32", shape), TensorSpec("float32", shape[1:])
    attributes: Attributes = {"axes": (0,), "function": "sum", "keepdims": False}
    added = reduce(attributes, [parts], [out])
    numbers = {0: (3, 0), 1: (2, 0), 2: (3, parts.nbytes)}
    stages = [Stage(b"", (0, 0, 0), (0, 1, 3), call=gemm)]
    stages += [placed(stage, numbers) for stage in added.stages]
    return Emission(tuple(stages), parts.nbytes + added.scratch_bytes)
