"""`scripts/bench AREA [NAME...]`: runs the benchmarks of an area and writes their record.

Owns: the list of areas and of the benchmark modules in each. A module exports
`measure() -> list[Row]`. With names given, only those run, and their rows replace the same rows
(by `what`) of the record that is there. Each module runs in a process of its own, because some set
the number of BLAS threads for themselves, which would hold for the peers of those after them.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from benchmarks.record import RESULTS, Row, machine, write

AREAS: dict[str, tuple[str, ...]] = {
    "path": (
        "import_time",
        "engine_start",
        "verify_product",
        "verify_factors",
        "node_leases",
        "local_product",
        "grid_product",
        "plan_blocks",
        "chaos",
        "demo_time",
    ),
    "catalog": ("graph_tools", "onnx_nodes", "catalog_speed", "capture_time", "operator_lines"),
    "training": ("training_curves", "training_bytes", "plan_stages", "large_algebra"),
    "lending": (
        "lending_input",
        "lending_stop",
        "lending_agent",
        "lending_game",
        "lending_hour",
        "lending_kills",
        "lending_unplugged",
    ),
    "zoo": ("zoo",),
    "desktop": ("window", "package"),
    "node": ("node_fairness", "node_million", "node_ray"),
    "coordinator": (
        "coordinator_contacts",
        "coordinator_million",
        "coordinator_simulation",
        "coordinator_pages",
    ),
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in AREAS:
        print(f"usage: scripts/bench AREA [NAME...]; areas: {', '.join(AREAS)}", file=sys.stderr)
        return 2
    area, names = arguments[0], arguments[1:] or AREAS[arguments[0]]
    unknown = set(names) - set(AREAS[area])
    if unknown:
        print(f"bench: {area} has no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in names:
        print(f"bench: {area}/{name}", flush=True)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            measured = alone.submit(_measured, name).result()
        for one in measured:
            mark = "meets" if one.meets else "MISSES"
            print(f"  {one.what}: {one.value} {one.unit} (bar {one.bar}: {mark})", flush=True)
            rows.append(one)
    path = write(area, _merged(area, rows))
    print(f"bench: wrote {path.relative_to(path.parents[2])}")
    return 0


def _measured(name: str) -> list[Row]:
    found: list[Row] = importlib.import_module(f"benchmarks.{name}").measure()
    return found


def _merged(area: str, rows: list[Row]) -> list[Row]:
    path = RESULTS / f"{area}.json"
    if not path.exists():
        return rows
    new = {one.what: one for one in rows}
    record = json.loads(path.read_text(encoding="utf-8"))
    kept = [_of_machine(Row(**old), record["machine"]) for old in record["rows"]]
    merged = [new.pop(old.what, old) for old in kept]
    return merged + list(new.values())


def _of_machine(old: Row, before: dict[str, str]) -> Row:
    """A row that is kept says on which processor it was measured, where that was another one."""
    processor = before["processor"]
    if processor == machine()["processor"] or "measured on " in old.note:
        return old
    return replace(old, note=f"{old.note}; measured on {processor}".removeprefix("; "))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
