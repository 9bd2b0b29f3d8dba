"""Graph to a program for Vulkan. Owns the choice of what depends on the opened card."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.layout import KINDS, WIDE_KINDS, lay_out, require_served
from app.engine.backends.card.product import matmul, multiplied
from app.engine.backends.card.unrolling import unrolled
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.program import CardProgram
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["compile_card"]


def compile_card(graph: Graph, machine: Machine, numeric_class: str = "float32") -> CardProgram:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for what this backend does not serve.
    """
    shared_bytes = machine.device.limits.shared_bytes

    def choose(node: Node, specs: Sequence[TensorSpec]) -> Emission | None:
        if node.operator == "matmul":
            return matmul(node.attrs, specs, node.outputs, shared_bytes)
        if node.operator == "conv":
            return unrolled(
                node.attrs, specs, node.outputs, lambda problem: multiplied(problem, shared_bytes)
            )
        return None

    kinds = WIDE_KINDS if machine.device.halves else KINDS
    return CardProgram(machine, lay_out(require_served(graph, numeric_class, kinds), choose))
