"""The simulator of the coordinator, and that of the lab node: speed, trouble, bugs that are found.

Owns: the figures. The worlds, their invariants and the planted bugs are `tests/simulation`'s.
"""

from __future__ import annotations

import importlib
import time
from typing import Any, Final

import pytest

from benchmarks.record import Row, row

SEEDS: Final = 24


def found(mutant: Any, play: Any, seeds: tuple[int, ...]) -> tuple[bool, float]:
    """Whether a planted bug is found, and the CPU time in seconds that it took."""
    patch = pytest.MonkeyPatch()
    began_s = time.process_time()
    try:
        mutant.plant(patch)
        for seed in seeds:
            try:
                play(seed)
            except Exception:  # a broken rule or a program that fell over: the mutant is found
                return True, time.process_time() - began_s
        return False, time.process_time() - began_s
    finally:
        patch.undo()


def measure() -> list[Row]:
    test_grid, test_mutants, test_node = (
        importlib.import_module(f"tests.simulation.{name}")
        for name in ("test_grid", "test_mutants", "test_simulation")
    )
    began_s = time.process_time()
    grids = [test_grid.play(seed) for seed in range(SEEDS)]
    grid_s = time.process_time() - began_s
    began_s = time.process_time()
    nodes = [test_node.play(seed) for seed in range(SEEDS)]
    node_s = time.process_time() - began_s
    bugs = [
        *(found(one, test_grid.play, test_grid.SEEDS) for one in test_grid.MUTANTS),
        *(found(one, one.stage, one.seeds) for one in test_mutants.MUTANTS),
    ]
    slowest_s = max(took_s for _, took_s in bugs)
    return [
        row("simulated coordinator: seeds", round(SEEDS / grid_s, 2), "seeds/s", bar=10,
            note="of one core; every invariant after every event that changed the database"),
        row("simulated coordinator: events a seed, the fewest", min(one.events for one in grids),
            "events", bar=3000, note=f"{SEEDS} seeds"),
        row("simulated coordinator: kills a seed, the fewest",
            min(one.kill_count for one in grids), "kills", bar=30,
            note=f"before any statement or after a commit; {sum(one.full_count for one in grids)}"
            " times the disk was full"),
        row("simulated lab node: seeds", round(SEEDS / node_s, 2), "seeds/s",
            note=f"one job each; {sum(one.kill_count for one in nodes)} kills,"
            f" {sum(one.statements for one in nodes)} statements"),
        row("simulators: planted bugs that are found", sum(is_found for is_found, _ in bugs),
            "bugs", bar=len(bugs), note=f"{len(test_grid.MUTANTS)} of the coordinator's"),
        row("simulators: the slowest to be found", round(slowest_s, 1), "s", bar=60,
            better="lower", note="CPU time"),
    ]  # fmt: skip
