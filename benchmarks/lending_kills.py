"""kill -9 at random moments of a working agent: leases that are lost or counted twice.

Owns: that count, with the books of the lab and the journal of the agent compared after every kill,
as the end-to-end test does with fewer. The engine has no walls here: the agent is what is killed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.record import Row, row
from tests.e2e.test_agent_kill import chaos
from tests.helpers.agent_run import Scene

KILLS = 1000
TASKS = 40
SEED = 1000


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="lending-") as name:
        scene = Scene(Path(name))
        try:
            # Raises where one lease has no fate, two, or a task is not verified exactly once.
            chaos(scene, kills=KILLS, tasks=TASKS, seed=SEED)
            issued, verified = len(scene.lab.issued), scene.lab.verified()
            lost = len(set(scene.lab.issued) - set(scene.lab.fate))
        finally:
            scene.close()
    return [
        row("kill -9 of the agent: leases lost or doubled", lost, "", bar=0.0, better="lower",
            note=f"{KILLS} kills, {issued} leases, {verified} results verified once each")
    ]  # fmt: skip
