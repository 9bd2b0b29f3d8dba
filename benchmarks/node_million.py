"""One job of 2^20 tasks on a lab node: how long its submission takes, what the node's process holds
while volunteers work on it, and whether its progress is exact.

The input is a sparse file of 1 TiB, of which each task sums one row of 1 MiB. One volunteer
computes some hundreds of the tasks; then what the job says is compared with the rows of tasks.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.record import Row, row
from gpugoblin.units import GIB, MIB
from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo
from tests.helpers.lab import Lab, fresh_hex, grid_settings, on_grid, row_sums
from tests.helpers.node import LabNode

__all__ = ["measure"]

TASKS: Final = 1 << 20
COMPUTED: Final = 400
SHAPE: Final = (TASKS, MIB // 4)
SETTLES_S: Final = 60.0


def _play(pipe: Any) -> None:
    """Node, researcher and volunteer, all in this process."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        np.lib.format.open_memmap(root / "v.npy", mode="w+", dtype=np.float32, shape=SHAPE)
        with LabNode(root, **grid_settings()) as node, Lab(node, root) as lab:
            create = ArrayCreate("npy", "float32", SHAPE, fresh_hex(), str(root / "v.npy"))
            source = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=create)
            began_s = time.monotonic()
            job = on_grid(lab, row_sums(SHAPE), source, name="million")
            submit_s = time.monotonic() - began_s
            done = 0
            with lab.device() as device:
                while done < COMPUTED:
                    done += device.work(8)
            ends_s = time.monotonic() + SETTLES_S
            while (found := lab.summary("million")).info.verified < done:
                if time.monotonic() > ends_s:
                    break
                time.sleep(0.05)
            told = found.tasks
            rows = dict(node.read("select state, count(*) from task group by state"))
            wrong = abs(told.used - done) + abs(told.used - rows.get("used", 0))
            wrong += abs(told.planned + sum(rows.values()) - TASKS)
            wrong += abs(job.tasks - TASKS)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            pipe.send((submit_s, peak, wrong, sum(rows.values())))


def measure() -> list[Row]:
    """Submission, memory and progress."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    player = context.Process(target=_play, args=(theirs,))
    player.start()
    theirs.close()
    submit_s, peak, wrong, made = ours.recv()
    player.join()
    note = f"{made} of them made after {COMPUTED} were computed"
    return [
        row(
            "submission of one job of 1,048,576 tasks returns", round(submit_s, 3), "s", bar=1.0,
            better="lower",
        ),
        row(
            "that job: peak resident of the node, researcher and volunteer in one process",
            round(peak / MIB, 1), "MiB", bar=GIB / MIB, better="lower", note=note,
        ),
        row(
            "that job: tasks by which its progress differs from what was done", wrong, "tasks",
            bar=0, better="lower",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(f"{one.what}: {one.value} {one.unit} (bar {one.bar}) {one.note}")
