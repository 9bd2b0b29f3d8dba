"""What a card can do: measured once at the start, with two tiny tasks of our own.

Owns: the tasks (canonical graph bytes, kept equal to the catalog's by a test, since the agent knows
no graph) and the rates. Must not: run while a lab's engine is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.agent.own_task import LIMIT_S, go_on, run_own
from app.host.engine import Engine
from app.host.spec import Done, EngineTask
from gpugoblin.units import MIB

__all__ = ["PRODUCT_GRAPH", "SUM_GRAPH", "UNKNOWN", "Rates", "calibrate"]

PRODUCT_SIDE: Final = 768
PRODUCT_GRAPH: Final = bytes.fromhex(
    "6770674701020002800680060002800680060001066d61746d756c0100000200010102"
)
"""float32 matrix product of two matrices of 768 x 768."""

SUM_COUNT: Final = 1 << 21
SUM_GRAPH: Final = bytes.fromhex(
    "6770674701020001808080010001808080010001"
    "07666f726d756c61010305696e7075740000ff05696e7075740001ff0361646402000100ff020001"
    "0102"
)
"""float32 elementwise sum of two vectors of 2**21."""

ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """The best of some rounds: flop a second of a product, bytes moved a second of a sum."""

    flops_per_s: float
    bytes_per_s: float


UNKNOWN: Final = Rates(1e9, 1e9)
"""Taken where a card could not be measured: slow, so that leases are long enough."""


def calibrate(engine: Engine, look: Callable[[], None] = go_on) -> Rates:
    """Measures an engine that is ready and has nothing else to do; about 0.2 s. Blocks.

    Args:
        look: called many times a second; what it raises ends the measurement.

    Raises:
        EngineError: the engine died meanwhile, and why.
    """
    product_s = _best_s(engine, PRODUCT_GRAPH, 4 * PRODUCT_SIDE**2, look)
    sum_s = _best_s(engine, SUM_GRAPH, 4 * SUM_COUNT, look)
    return Rates(
        UNKNOWN.flops_per_s if product_s is None else 2.0 * PRODUCT_SIDE**3 / product_s,
        UNKNOWN.bytes_per_s if sum_s is None else 3.0 * 4 * SUM_COUNT / sum_s,
    )


def _best_s(engine: Engine, graph: bytes, nbytes: int, look: Callable[[], None]) -> float | None:
    """The shortest of some runs of a graph of two inputs and one output of `nbytes` each."""
    inputs = (engine.inputs.allocate(nbytes), engine.inputs.allocate(nbytes))
    output = engine.outputs.allocate(nbytes)
    for slot in inputs:
        with engine.inputs.view(slot) as view:  # an error's traceback must not keep the arena
            for start in range(0, nbytes, MIB):
                view[start : start + MIB] = bytes(min(MIB, nbytes - start))
    try:
        task = EngineTask(graph, inputs, (output,), predicted_s=LIMIT_S)
        times_s = [_run_s(engine, task, look) for _ in range(ROUNDS)]
    finally:
        for slot in inputs:
            engine.inputs.free(slot)
        engine.outputs.free(output)
    known = [time_s for time_s in times_s if time_s is not None]
    return max(min(known), 1e-6) if known else None


def _run_s(engine: Engine, task: EngineTask, look: Callable[[], None]) -> float | None:
    answer = run_own(engine, task, look)
    return answer.compute_s if isinstance(answer, Done) else None
