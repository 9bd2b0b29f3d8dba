"""One operator on a card in the test's own process, against the catalog's reference.

Owns: building the graph, running it, and the comparison within the operator's bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds

if TYPE_CHECKING:
    from app.engine.backends.vulkan.machine import Machine

__all__ = ["graph_of", "require_right", "run_graph", "short_product"]


def graph_of(operator: str, inputs: Sequence[Array], **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    return builder.build(builder.add_many(operator, values, **attributes))


def short_product(
    m: int, n: int, k: int, across: tuple[bool, bool], form: str, batch: tuple[int, ...] = ()
) -> Graph:
    """A product of operands that lie in 16 bits."""
    lefts, rights = ((k, m) if across[0] else (m, k)), ((n, k) if across[1] else (k, n))
    builder = GraphBuilder()
    given = [builder.input(TensorSpec(form, (*batch, *shape))) for shape in (lefts, rights)]
    wide = [builder.add("cast", [value], dtype="float32") for value in given]
    product = builder.add("matmul", wide, transpose_a=across[0], transpose_b=across[1])
    return builder.build([product])


def run_graph(machine: Machine, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs; what the validation layer says is an error.

    Raises:
        EngineError, KernelError.
    """
    from app.engine.backends.vulkan.compiling import compile_card

    program = compile_card(graph, machine)
    outputs = [np.empty(spec.shape, DTYPES[spec.dtype]) for spec in graph.output_specs()]
    pool = Pool(1)
    try:
        program.prepare()
        given = [np.ascontiguousarray(array) for array in inputs]
        program.run(given, outputs, np.empty(0, np.uint8), Context(pool))
    finally:
        program.release()
        pool.close()
    return outputs


def require_right(machine: Machine, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Runs, and requires every element within its bound."""
    results = run_graph(machine, graph, inputs)
    exact, bounds = error_bounds(graph, inputs)
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        wrong = ~agrees(result, reference, bound)
        assert not wrong.any(), (
            f"{wrong.sum()} of {wrong.size}: {result[wrong].flat[0]!r}, "
            f"the reference {reference[wrong].flat[0]!r}"
        )
    return results
