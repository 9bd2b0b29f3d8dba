"""kill -9 at random moments: no lease is forgotten, no result is counted twice.

After each kill the agent starts again from the same directory. The lab's books must balance: every
lease that it gave out has a fate, and at the end every task was verified exactly once.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.agent.journal import Journal
from gpugoblin.ids import LeaseId
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene

ROOT = Path(__file__).resolve().parents[2]


def start(scene: Scene) -> subprocess.Popen[bytes]:
    with (scene.directory / "agent.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.agent_plain", "none", str(scene.config)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )


def killed(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL; its engine must be gone soon after, by itself."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    eventually(lambda: not [child for child in children if child.is_running()])


def journaled(scene: Scene) -> set[str]:
    path = scene.state / "journal.db"
    if not path.exists():
        return set()
    journal = Journal(path)
    try:
        return {lease for lease, _ in journal.recall(time.time()).leases}
    finally:
        journal.close()


def chaos(scene: Scene, kills: int, tasks: int, seed: int) -> None:
    rng = random.Random(seed)
    scene.coordinator.next_contact_s = 0.2
    scene.lab.add_products(tasks, rows=128, inner=256, columns=256)
    unread: set[LeaseId] = set()
    for _ in range(kills):
        if len(scene.lab.tasks) < 10:
            scene.lab.add_products(20, rows=128, inner=256, columns=256)
        process = start(scene)
        held = len(scene.lab.issued)
        try:
            if rng.random() < 0.8:  # most kills while it works, some while it starts
                eventually(lambda before=held: len(scene.lab.issued) > before)  # type: ignore[misc] # a default
                time.sleep(rng.uniform(0.0, 0.1))  # a task takes some 10 ms: others are held
            else:
                time.sleep(rng.uniform(0.0, 0.6))
        except TimeoutError:
            log = (scene.directory / "agent.log").read_text()
            pytest.fail(f"no lease: {log[-3000:]} {scene.lab.exchanges[-3:]}")
        finally:
            killed(process)
        # Whatever the lab holds open is in the journal, or its answer was never read.
        with scene.lab.lock:
            unknown = set(scene.lab.open) - journaled(scene)
        assert unknown <= unread | set(scene.lab.issued[held:])
        unread = unknown
    last = start(scene)
    try:
        total = len(scene.lab.arrays)
        eventually(lambda: scene.lab.verified() == total, limit_s=60.0)
    finally:
        last.send_signal(signal.SIGTERM)
        last.wait(timeout=20)
    log = (scene.directory / "agent.log").read_text()
    assert last.returncode == 0, log
    assert "Traceback" not in log
    assert scene.lab.open == {}
    assert set(scene.lab.issued) == set(scene.lab.fate)
    assert total == scene.lab.verified()
    assert "wrong" not in scene.lab.fate.values()
    assert journaled(scene) == set()
    assert scene.lab.problems == [] == scene.coordinator.problems


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_f266_i1436_three_kills(scene: Scene) -> None:
    chaos(scene, kills=3, tasks=40, seed=11)
    assert {"shutdown", "answer_lost"} & set(scene.lab.fate.values())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_kills(scene: Scene) -> None:
    chaos(scene, kills=100, tasks=40, seed=12)


def test_the_cache_of_a_killed_agent_is_discarded_and_said(scene: Scene) -> None:
    scene.lab.add_products(40, rows=128, inner=256, columns=256)
    process = start(scene)
    try:
        eventually(lambda: scene.lab.verified() > 0)
    finally:
        killed(process)
    left = [file.stat().st_size for file in (scene.state / "cache").iterdir()]
    assert sum(left) > 0
    again = start(scene)
    try:
        eventually(lambda: "of cached inputs" in (scene.directory / "agent.log").read_text())
    finally:
        again.send_signal(signal.SIGTERM)
        again.wait(timeout=20)
    assert "their key is gone" in (scene.directory / "agent.log").read_text()
