"""What the agent itself costs: resident memory, processor time and wake-ups, off and armed.

Owns: those figures, of the program as an owner starts it, without a coordinator (it tries again
later and later, which counts in). `off`: the owner has paused. `armed`: its hours have not come, so
it looks for the moment to lend. The tensor pool (shared pages of the engine's arenas) is not
counted, and an engine does not run while off or armed. Wake-ups are voluntary switches of all its
threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.control.client import ControlClient
from app.control.messages import Pause, Resume, SettingsSet
from benchmarks.record import Row, row
from gpugoblin.units import MIB

SETTLE_S = 15.0
SPAN_S = 60.0
_CONFIG = """state_directory = "{state}"
profile = "custom"
away.when_present = "go_on"
price.dear_hours = ["daily 00:00-24:00"]
load.processor_percent = 100
[coordinator]
address = "http://127.0.0.1:9"
[processor]
share = true
threads = 1
"""


def measure() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="lending-") as name,
        _agent(Path(name)) as pid,
        ControlClient(Path(name) / "state" / "control") as control,
    ):
        time.sleep(SETTLE_S)
        armed = _cost(pid)
        control.ask(Pause(1, "bench"))
        time.sleep(SETTLE_S)
        off = _cost(pid)
        control.ask(Resume(2, "bench-2"))
        control.ask(SettingsSet(3, 0, {"price.dear_hours": ()}))
        time.sleep(SETTLE_S)
        memory = _resident_mib(pid)
    return [
        row("agent's resident memory, an engine ready", round(memory, 1), "MiB", bar=55.0,
            better="lower", note="shared pages of the arenas not counted"),
        *_rows("off", off, 0.3, 12.0),
        *_rows("armed and waiting", armed, 0.7, 120.0),
    ]  # fmt: skip


def _rows(name: str, cost: tuple[float, float], percent: float, wakes: float) -> list[Row]:
    note = f"over {SPAN_S:g} s"
    return [
        row(f"agent {name}: share of a core", round(cost[0], 3), "%", bar=percent, better="lower",
            note=note),
        row(f"agent {name}: wake-ups a minute", round(cost[1], 1), "", bar=wakes, better="lower",
            note=note),
    ]  # fmt: skip


@contextmanager
def _agent(folder: Path) -> Iterator[int]:
    config = folder / "agent.toml"
    config.write_text(_CONFIG.format(state=folder / "state"))
    command = [sys.executable, "-I", "-m", "app.main", "--console", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not (folder / "state" / "control" / "control.sock").exists():
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _cost(pid: int) -> tuple[float, float]:
    """Percent of a core and wake-ups a minute."""
    spent, woken = _spent_s(pid), _woken(pid)
    time.sleep(SPAN_S)
    return (
        100 * (_spent_s(pid) - spent) / SPAN_S,
        (_woken(pid) - woken) * 60 / SPAN_S,
    )


def _spent_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _woken(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def _resident_mib(pid: int) -> float:
    fields = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    return (int(fields["VmRSS"][0]) - int(fields["RssShmem"][0])) * 1024 / MIB
