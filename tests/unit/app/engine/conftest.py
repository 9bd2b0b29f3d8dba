"""Running graphs inside the test's own process, without an engine around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from app.engine.backends.cpu.backend import CpuBackend
from app.engine.compile import compile_graph
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.ir import Graph

Evaluate = Callable[[Graph, Sequence[Array]], list[Array]]


def evaluate_on(pool: Pool) -> Evaluate:
    """Compiles and runs; outputs and arena start as garbage, so that nothing counts on zeros."""

    def evaluate(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        program = compile_graph(graph, CpuBackend())
        outputs = [np.empty(spec.shape, DTYPES[spec.dtype]) for spec in program.output_specs]
        for output in outputs:
            output.reshape(-1).view(np.uint8)[...] = 0x55
        arena = np.full(program.arena_bytes, 0xAA, np.uint8)
        with np.errstate(all="ignore"):
            program.run(
                [np.ascontiguousarray(array).reshape(array.shape) for array in inputs],
                outputs,
                arena,
                Context(pool),
            )
        return outputs

    return evaluate


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.close()


@pytest.fixture
def evaluate(pool: Pool) -> Evaluate:
    return evaluate_on(pool)


@pytest.fixture
def evaluate_with() -> Callable[[Pool], Evaluate]:
    return evaluate_on
