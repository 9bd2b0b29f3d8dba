"""The record of a benchmark run: rows beside their bars and peers, kept as JSON.

Owns: `Row`, the machine's description and the writing of `benchmarks/results/AREA.json`. A
row that was not run says so in its note and does not meet its bar.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

__all__ = ["ROOT", "Row", "machine", "not_run", "row", "write"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `ratio` is value over peer_value; `bar` is in `unit`, or a ratio when so said."""

    what: str
    value: float | int | None
    unit: str
    bar: str
    better: Literal["higher", "lower"]
    peer: str
    peer_value: float | int | None
    ratio: float | None
    meets: bool
    note: str


def row(
    what: str,
    value: float | int,
    unit: str,
    *,
    bar: float | None = None,
    ratio_bar: float | None = None,
    better: Literal["higher", "lower"] = "higher",
    peer: str = "",
    peer_value: float | int | None = None,
    note: str = "",
) -> Row:
    """A measured row; whether it meets its bar is computed here and nowhere else."""
    ratio = None if not peer_value else value / peer_value
    sign = 1 if better == "higher" else -1
    meets = True
    words = []
    if bar is not None:
        meets = meets and sign * (value - bar) >= 0
        words.append(f"{'>=' if sign > 0 else '<='} {bar:g} {unit}")
    if ratio_bar is not None:
        meets = meets and ratio is not None and sign * (ratio - ratio_bar) >= 0
        words.append(f"ratio {'>=' if sign > 0 else '<='} {ratio_bar:g}")
    return Row(
        what, value, unit, ", ".join(words) or "none", better, peer, peer_value, ratio, meets, note
    )


def not_run(what: str, unit: str, bar: str, reason: str) -> Row:
    """A row that was not measured, and why."""
    return Row(what, None, unit, bar, "higher", "", None, None, False, f"not run: {reason}")


def machine() -> dict[str, str]:
    """Cores, model, memory, system, interpreter and its speed."""
    model = "unknown"
    flags = ""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            flags = "with AVX-512" if "avx512f" in line else "without AVX-512"
    memory_kib = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    system = ""
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("PRETTY_NAME="):
            system = line.split("=", 1)[1].strip('"')
    return {
        "processor": f"{model} {flags}".strip(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_kib / 1024**2:.1f} GiB",
        "system": system,
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "ten million additions by Python": f"{_additions_s():.2f} s",
    }


def _additions_s() -> float:
    """How quick one core is at Python: figures in microseconds differ by as much."""
    best_s = math.inf
    for _ in range(3):
        began_s, total = time.process_time(), 0
        for number in range(2_000_000):
            total += number
        best_s = min(best_s, time.process_time() - began_s)
    return 5 * best_s


NAMED: Final = (
    "gpugoblin", "numpy", "msgspec", "blake3",
    "torch", "timm", "transformers", "jax", "dask", "ray",
)  # fmt: skip
"""Packages whose versions a record says, where they are installed: our own parts and the peers."""


def versions(*names: str) -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def write(area: str, rows: list[Row]) -> Path:
    """Writes `benchmarks/results/AREA.json` and returns its path."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    record = {
        "area": area,
        "date": datetime.date.today().isoformat(),
        "commit": commit or "unknown",
        "machine": machine(),
        "versions": versions(*NAMED),
        "rows": [asdict(one) for one in rows],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{area}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
