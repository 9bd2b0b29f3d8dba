"""Planning whole graphs: how long it takes, and what the plans cost.

    python benchmarks/plan_blocks.py

Beside it Dask builds the graph of the same elementwise chain in blocks of the same size. Its graph
holds an object for each task; a plan here makes a task when it is asked for, so the time for all
of its tasks is a row of its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.record import Row, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.planner import plan
from gpugoblin.plan.spec import Limits, Plan
from gpugoblin.units import MIB

RUNS = 5
LIMITS = Limits(512 * MIB)
SIDE = 2**18


def _call(builder: GraphBuilder, function: str, *values: int) -> int:
    return builder.add("formula", values, tree=call_formula(function))


def chain(rows: int, columns: int) -> Graph:
    """tanh(x * x) - x."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (rows, columns)))
    square = _call(builder, "mul", x, x)
    return builder.build([_call(builder, "sub", _call(builder, "tanh", square), x)])


def covariance(rows: int, columns: int) -> Graph:
    """(x - mean).T @ (x - mean)."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (rows, columns)))
    mean = builder.add("reduce", [x], axes=(0,), function="mean", keepdims=True)
    away = _call(builder, "sub", x, mean)
    return builder.build([builder.add("matmul", [away, away], transpose_a=True)])


def layers(rows: int, inner: int, hidden: int, columns: int) -> Graph:
    """tanh(x @ w) @ v."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (rows, inner)))
    w = builder.input(TensorSpec("float32", (inner, hidden)))
    v = builder.input(TensorSpec("float32", (hidden, columns)))
    middle = _call(builder, "tanh", builder.add("matmul", [x, w]))
    return builder.build([builder.add("matmul", [middle, v])])


def _median_s(action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _dask_graph(rows: int, tile: tuple[int, ...]) -> int:
    """Tasks in Dask's graph of the same chain; blocks are the arguments of a source function."""
    import dask.array as array

    source = array.zeros((rows, SIDE), dtype="float32", chunks=tile)
    made = array.tanh(source * source) - source
    return len(dict(made.__dask_graph__()))


def _all_tasks(found: Plan) -> None:
    for index in range(found.count):
        found.task(index)


def measure() -> list[Row]:
    large = plan(chain(SIDE, SIDE), LIMITS)
    tile = large.summary().tile
    plan_s = _median_s(lambda: plan(chain(SIDE, SIDE), LIMITS))
    dask_s = _median_s(lambda: _dask_graph(SIDE, tile))
    rows = [
        row(
            f"plan of {large.count} elementwise tasks",
            round(plan_s, 4),
            "s",
            bar=1,
            better="lower",
            peer="Dask array, graph of the same blocks",
            peer_value=round(dask_s, 4),
        )
    ]
    made_s = _median_s(lambda: _all_tasks(large)) / large.count
    rows.append(row("making one of its tasks", round(made_s * 1e6, 1), "us", bar=1000,
                    better="lower"))  # fmt: skip
    for name, graph in (
        ("covariance of 1,000,000 x 512", covariance(1_000_000, 512)),
        ("two layers, 30,000 x 4,096 x 16,384 x 4,096", layers(30_000, 4096, 16_384, 4096)),
    ):
        seconds = _median_s(lambda graph=graph: plan(graph, LIMITS))  # type: ignore[misc]
        found = plan(graph, LIMITS).summary()
        note = f"{found.tasks} tasks of at most {found.memory_bound_bytes / MIB:.0f} MiB"
        rows.append(row(f"plan of {name}", round(seconds, 3), "s", bar=5, better="lower",
                        note=note))  # fmt: skip
        share = 100 * found.verify_flops / found.flops
        rows.append(row(f"check of {name}", round(share, 2), "% of its flops", bar=15,
                        better="lower"))  # fmt: skip
    return rows


if __name__ == "__main__":
    for one in measure():
        print(f"{one.what}: {one.value} {one.unit} (bar {one.bar}) {one.peer} {one.peer_value}")
