"""A researcher's process that submits programs under their names, and waits for them.

Owns: the programs of the chaos tests. Run as a script: `python -I chaos_client.py SOCKET FOLDER
PREFIX NAME...`; it may be killed at any moment and started again with the same words, since the
same name and content attaches. It prints `submitted` and `done`, and ends with 0; a node that is
away longer than it waits is no failure of a job, so it begins again then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import gpugoblin as gg
from gpugoblin.errors import ClientError

__all__ = ["PROGRAMS", "Program", "main", "result_path"]

NODE_AWAY = ("node_unreachable", "node_silent", "reply_unexpected")
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """One computation on `x.npy`, `w.npy` and `b.npy` of the folder, and who computes it."""

    executor: Literal["local", "grid"]
    of: Callable[[gg.Array, gg.Array, gg.Array], gg.Array]


def _product(x: gg.Array, w: gg.Array, b: gg.Array) -> gg.Array:
    return x @ w.T


def _blocks(x: gg.Array, w: gg.Array, b: gg.Array) -> gg.Array:
    return gg.tanh(b * 0.5) + 1.0


def _sums(x: gg.Array, w: gg.Array, b: gg.Array) -> gg.Array:
    return (b * b).sum(axis=0)


PROGRAMS: dict[str, Program] = {
    "local-product": Program("local", _product),
    "local-blocks": Program("local", _blocks),
    "grid-product": Program("grid", _product),
    "grid-blocks": Program("grid", _blocks),
    "grid-sums": Program("grid", _sums),
}


def result_path(folder: Path, prefix: str, name: str) -> Path:
    """Where a program of a round saves its result."""
    return folder / f"{prefix}-{name}.npy"


def main(words: list[str]) -> int:
    """Runs until every job is done; each try again attaches to what is there."""
    socket, folder, prefix, *names = words
    away_since_s: float | None = None
    while True:
        try:
            _run(socket, Path(folder), prefix, names)
            return 0
        except ClientError as error:
            now_s = time.monotonic()
            away_since_s = away_since_s or now_s
            if error.code not in NODE_AWAY or now_s - away_since_s > PATIENCE_S:
                raise
            print(f"again: {error.code}", flush=True)
            time.sleep(0.5)


def _run(socket: str, folder: Path, prefix: str, names: list[str]) -> None:
    with gg.connect(f"unix:{socket}"):
        x, b = gg.open(folder / "x.npy"), gg.open(folder / "b.npy")
        w = gg.array(np.load(folder / "w.npy"))  # sent to the node; the others it opens itself
        jobs = []
        for name in names:
            program = PROGRAMS[name]
            place = result_path(folder, prefix, name)
            jobs.append(
                program.of(x, w, b).save(
                    place, name=f"{prefix}-{name}", executor=program.executor, force=True
                )
            )
        print("submitted", flush=True)
        for job in jobs:
            job.wait()
        print("done", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
