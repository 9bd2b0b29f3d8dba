"""The tools of graphs on a program of 5,000 nodes: checking and the canonical form.

    python benchmarks/graph_tools.py

The program is a chain of blocks as transformers have them. Times are of this process's processor,
so that what else runs on the machine does not count.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.record import Row, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.check import check
from gpugoblin.graph.ir import Graph

NODES = 5_000
RUNS = 5


def program(nodes: int) -> Graph:
    """Blocks of a norm, a product, heads, their scaling and an activation, each added to its
    input."""
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (8, 16, 64)))
    epsilon = builder.constant(np.array(1e-5, np.float32))
    weights = [builder.input(TensorSpec("float32", (64, 64))) for _ in range(4)]
    add, multiply = call_formula("add"), call_formula("mul")
    for number in range(-(-nodes // 12)):
        normal = builder.add("layer_norm", [value, epsilon], axes=(2,))
        flat = builder.add("reshape", [normal], shape=(128, 64))
        product = builder.add("matmul", [flat, weights[number % 4]])
        heads = builder.add("reshape", [product], shape=(8, 16, 4, 16))
        heads = builder.add("permute", [heads], axes=(0, 2, 1, 3))
        square = builder.add("formula", [heads, heads], tree=multiply)
        size = builder.add("reduce", [square], axes=(3,), function="sum", keepdims=True)
        scaled = builder.add("formula", [heads, size], tree=add)
        turned = builder.add("permute", [scaled], axes=(0, 2, 1, 3))
        whole = builder.add("reshape", [turned], shape=(8, 16, 64))
        value = builder.add("formula", [value, builder.add("gelu", [whole])], tree=add)
    return builder.build([value])


def _median_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def measure() -> list[Row]:
    graph = program(NODES)

    def both() -> None:
        check(graph)
        canonicalise(graph)

    return [
        row(
            "checks and canonical form of 5,000 nodes", round(_median_s(both), 3), "s",
            bar=2.0, better="lower",
            note=f"{len(graph.nodes)} nodes; time of the processor, one core",
        ),
        row(
            "checks of 5,000 nodes", round(_median_s(lambda: check(graph)), 3), "s",
            bar=2.0, better="lower", note="time of the processor, one core",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(one)
