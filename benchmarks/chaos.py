"""kill -9 of one hundred processes at moments of a fixed seed, while jobs run round after round.

Owns: the figures of one run. What is run, and how it is judged, are the chaos tests' own
(`tests/helpers/chaos*.py`); the control that their audit can fail is `tests/e2e/test_chaos.py`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.record import Row, row
from tests.helpers import chaos_client
from tests.helpers.chaos import WEIGHTS, Account, Chaos, schedule, write_inputs
from tests.helpers.chaos_network import ChaosNetwork

__all__ = ["measure"]

SEED: Final = 20_240_229
AGENTS: Final = {"agent-1": "ann", "agent-2": "bob", "agent-3": "cyd"}
LIMIT_S: Final = 1500.0
FIGURES: Final = {
    "lost": "verified tiles lost",
    "used_twice": "tiles used twice",
    "used_unverified": "tiles used unverified",
    "computed_again": "tiles computed again after their use",
    "bytes": "results with other bytes than undisturbed",
    "unfinished": "jobs or tasks that did not end",
    "receipts": "receipts not booked exactly once",
    "ledger": "faults of the ledger",
    "diary": "gaps in event histories",
    "surprise": "programs that met a failure they have no word for",
    "orphan": "processes left behind",
    "leftover": "files and references left behind",
}


def measure() -> list[Row]:
    """One run: an undisturbed round, the storm, the audit."""
    start_s = time.monotonic()
    account = _run()
    wall_s = time.monotonic() - start_s
    parts = ", ".join(f"{count} {part}" for part, count in sorted(account.kills.items()))
    work = f"{account.jobs} jobs of {account.tasks} tasks, seed {SEED}"
    rows = [
        row("chaos: processes killed", sum(account.kills.values()), "kills", bar=100, note=parts)
    ]
    found = Counter(fault.kind for fault in account.faults)
    for kind, what in FIGURES.items():
        examples = "; ".join(each.what for each in account.faults if each.kind == kind)[:300]
        rows.append(
            row(
                f"chaos: {what}", found.pop(kind, 0), "faults", bar=0, better="lower",
                note=examples or work,
            )
        )  # fmt: skip
    if found:
        raise LookupError(f"the audit knows kinds that have no row here: {sorted(found)}")
    rows.append(row("chaos: wall time", round(wall_s), "s", bar=720, better="lower", note=work))
    return rows


def _run() -> Account:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    root.chmod(0o755)
    try:
        with ChaosNetwork(root, AGENTS) as network:
            write_inputs(network.folder, rows=4096, inner=512, block_rows=32768)
            chaos = Chaos(network, tuple(chaos_client.PROGRAMS), SEED, _say)
            chaos.calm()
            chaos.storm(schedule(SEED, WEIGHTS, gap_s=(0.5, 6.0), pause_s=2.0), LIMIT_S)
            chaos.come_to_rest()
            return chaos.account
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _say(line: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {line}", flush=True)
