"""Graph to a program for Vulkan. Owns the choice of what depends on the opened card.

In the classes that round operands to 16 bits, products of such operands go to the card's matrix
units where it has them. Classes `float32` and `exact` never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from app.engine.backends.card.cooperative import cooperated
from app.engine.backends.card.emission import Emission
from app.engine.backends.card.fragments import Blocking, Fragment
from app.engine.backends.card.fragments import choose as choose_tiles
from app.engine.backends.card.layout import has_floats, lay_out, require_served
from app.engine.backends.card.narrow import HALVES
from app.engine.backends.card.product import Problem, matmul, multiplied
from app.engine.backends.card.served import NARROW_DTYPES, WIDE_DTYPES
from app.engine.backends.card.shortening import shortened
from app.engine.backends.card.stages import Stage
from app.engine.backends.card.steps import Layout
from app.engine.backends.card.target import LEAST, Target
from app.engine.backends.card.unrolling import unrolled
from app.engine.backends.vulkan.machine import Machine, kernel_name
from app.engine.backends.vulkan.program import CardProgram
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.graph.ir import Graph, Node

__all__ = ["compile_card", "keeps_small_numbers"]

SHORT_CLASSES: Final = frozenset({"float16", "bfloat16"})
SMALL: Final = (1e-40, 1e-30, 2.0**-126, 2.0**-149, 1.0, -3e-39)


def keeps_small_numbers(machine: Machine) -> bool:
    """Are products and sums below 2^-126 what they should be? Asked of the card once, as no driver
    has to say."""
    if machine.keeps_small is None:
        numbers = np.array(SMALL, np.float32)
        builder = GraphBuilder()
        x, y = (builder.input(TensorSpec("float32", shape)) for shape in ((6, 1), (6,)))
        names = ("mul", "add", "sub")
        graph = builder.build(
            [builder.add("formula", [x, y], tree=call_formula(name)) for name in names]
        )
        plain = lay_out(
            require_served(graph),
            lambda node, specs: None,
            Target(ordered=True),
            machine.page_bytes,
        )
        program = CardProgram(machine, plain)
        outputs = [np.empty((6, 6), np.float32) for _ in names]
        pool = Pool(1)
        program.run([numbers[:, None], numbers], outputs, np.empty(0, np.uint8), Context(pool))
        program.release()
        pool.close()
        wanted = [
            function(numbers[:, None], numbers) for function in (np.multiply, np.add, np.subtract)
        ]
        machine.keeps_small = all(
            found.tobytes() == expected.tobytes()
            for found, expected in zip(outputs, wanted, strict=True)
        )
    return machine.keeps_small


def dtypes_of(machine: Machine) -> Dtypes:
    """What the kernels have on this card."""
    return WIDE_DTYPES if machine.device.halves else NARROW_DTYPES


def compile_card(graph: Graph, machine: Machine, numeric_class: str = "float32") -> CardProgram:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for what this backend does not serve.
    """
    shared_bytes = machine.device.limits.shared_bytes

    def choose(node: Node, specs: Sequence[TensorSpec]) -> Emission | None:
        if node.operator == "matmul":
            if specs[0].dtype in HALVES:
                return Emission((_cooperated(node, specs, machine),))
            return matmul(node.attrs, specs, node.outputs, shared_bytes)
        if node.operator == "conv":
            return unrolled(
                node.attrs, specs, node.outputs, lambda problem: multiplied(problem, shared_bytes)
            )
        return None

    expanded = require_served(graph, numeric_class, dtypes_of(machine))
    if numeric_class == "exact" and has_floats(expanded):
        if not keeps_small_numbers(machine):
            reason = "class exact serves integers and bool only: small numbers become zero here"
            raise EngineError("task_refused", reason=reason)
        exact = replace(LEAST, ordered=True)
        ordered = lay_out(expanded, lambda node, specs: None, exact, machine.page_bytes)
        _require_none_refused(machine, ordered)
        return CardProgram(machine, ordered)
    short = expanded
    if numeric_class in SHORT_CLASSES:
        short = shortened(
            expanded, lambda problem, form: _tiles(problem, form, machine) is not None
        )
    layout = lay_out(short, choose, page_bytes=machine.page_bytes)
    if machine.refused and _refused(machine, layout):
        # Kernels of another make.
        layout = lay_out(expanded, lambda node, specs: None, page_bytes=machine.page_bytes)
        _require_none_refused(machine, layout)
    return CardProgram(machine, layout)


def _tiles(problem: Problem, form: str, machine: Machine) -> tuple[Blocking, Fragment] | None:
    """How the card's matrix units make a product, if they can."""
    limits = machine.device.limits
    return choose_tiles(
        problem, form, machine.device.units, limits.shared_bytes, limits.group_threads
    )


def _cooperated(node: Node, specs: Sequence[TensorSpec], machine: Machine) -> Stage:
    problem = Problem.of(node.attrs, specs, node.outputs[0])
    found = _tiles(problem, specs[0].dtype, machine)
    if found is None:
        raise ValueError("a product of 16-bit operands that no unit takes")
    return cooperated(problem, specs[0].dtype, *found, machine.device.units.subgroup)


def _refused(machine: Machine, layout: Layout) -> frozenset[str]:
    words = {stage.words for step in layout.steps for stage, _ in step.stages}
    return machine.refused & {kernel_name(each) for each in words}


def _require_none_refused(machine: Machine, layout: Layout) -> None:
    found = _refused(machine, layout) if machine.refused else frozenset()
    if found:
        reason = f"the kernel {min(found)} lost this card before"
        raise EngineError("task_refused", reason=reason)
