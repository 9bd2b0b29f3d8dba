"""How long the demonstration takes: from a fresh clone with set-up, and by itself.

Owns: those two figures. The clone is of this repository as committed; pip's cache is as it is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.record import ROOT, Row, row


def measure() -> list[Row]:
    place = Path(tempfile.mkdtemp(prefix="gpugoblin-clone-"))
    try:
        clone, figures = place / "clone", place / "demo.json"
        start_s = time.perf_counter()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        subprocess.run(
            [str(clone / "scripts" / "demo"), "--json", str(figures)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        whole_s = time.perf_counter() - start_s
        demo = json.loads(figures.read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    tasks = sum(job["tasks"] for job in demo["jobs"])
    used = sum(job["used"] for job in demo["jobs"])
    wrong = sum(job["wrong"] for job in demo["jobs"])
    note = f"{used} of {tasks} tasks verified and used, {wrong} wrong results caught"
    return [
        row("fresh clone to the end of the demonstration, set-up included", whole_s, "s", bar=300,
            better="lower", note=note),
        row("the demonstration itself", demo["total_s"], "s", bar=120, better="lower", note=note),
    ]  # fmt: skip
