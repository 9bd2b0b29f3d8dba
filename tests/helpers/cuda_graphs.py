"""One graph on a machine of CUDA in the test's own process. Owns the running of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.engine.backends.cuda.compiling import compile_card
from app.engine.backends.cuda.machine import Machine
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.ir import Graph

__all__ = ["run_cuda"]


def run_cuda(machine: Machine, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a graph.

    Raises:
        EngineError, KernelError.
    """
    program = compile_card(graph, machine)
    outputs = [np.empty(spec.shape, DTYPES[spec.dtype]) for spec in graph.output_specs()]
    pool = Pool(1)
    try:
        program.prepare()
        program.run(inputs, outputs, np.empty(0, np.uint8), Context(pool))
    finally:
        program.release()
        pool.close()
    return outputs
