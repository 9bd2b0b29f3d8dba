"""Splitting programs into stages: how long it takes, and that no task is over the limit.

    python benchmarks/plan_stages.py

CPU time, as planning is one thread. The programs are transformers with untied heads.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.record import Row, row
from gpugoblin.plan import stage_graphs, stage_search
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stages import StagePlan, split_stages
from gpugoblin.units import GIB, MIB
from tests.helpers.stages import transformer

RUNS = 5
CASES = (
    ("1,000 operators (62 blocks of width 768, 512 tokens)", (62, 768, 512, 32_000), 1.0),
    ("a GPT of 350 M parameters (24 blocks of width 1,024, 1,024 tokens)",
     (24, 1024, 1024, 50_257), 5.0),
)  # fmt: skip


def measure() -> list[Row]:
    rows: list[Row] = []
    for name, shape, bar in CASES:
        program, parameters = transformer(*shape)
        limits = Limits(GIB)
        times: list[float] = []
        plan: StagePlan | None = None
        for _ in range(RUNS):
            _forget()
            start_s = time.process_time()
            plan = split_stages(program, parameters=parameters, limits=limits)
            times.append(time.process_time() - start_s)
        if plan is None:
            raise SystemExit("no run was made")
        crossing = sum(plan.cut_bytes) / MIB
        note = (
            f"median of {RUNS}; {len(program.nodes)} operators, {len(plan.stages)} stages, "
            f"{crossing:.0f} MiB cross the cuts, {'with' if plan.tiled else 'without'} tiled layers"
        )
        rows.append(row(f"stages of {name} for engines of 1 GiB, CPU time",
                        round(statistics.median(times), 3), "s", bar=bar, better="lower",
                        note=note))  # fmt: skip
        rows.append(row(f"largest task of {name}", round(plan.peak_bytes / MIB, 1), "MiB",
                        bar=1024, better="lower",
                        note="bound of inputs, outputs and arena"))  # fmt: skip
    return rows


def _forget() -> None:
    """Each run plans anew."""
    for known in (stage_graphs._backward, stage_search._bound, stage_search._summary,
                  stage_search._tile_plan):  # fmt: skip
        known.cache_clear()


if __name__ == "__main__":
    for one in measure():
        print(f"{one.what}: {one.value} {one.unit} (bar {one.bar}) {one.note}")
