"""The loss curves of a training, from the rows and numbers that the node has recorded.

Owns: which numbers are read (a bounded part of a long run's), and their curves. Must not: draw, or
touch weights.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from markupsafe import Markup

from gpugoblin.wire.messages.training import TrainingSubmit
from server_stub.node import arrays as files
from server_stub.node.items import array_file
from server_stub.node.node import Node
from server_stub.node.state import arrays
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.store.protocol import Tx
from server_stub.node.training import rows
from server_stub.node.work import Box
from server_stub.web.charts import Series, curves

__all__ = ["Losses", "of"]

MOST_POINTS: Final = 400
MOST_READ: Final = 65_536

Numbers = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class Losses:
    """How a training stands, with its picture and the last numbers as a table.

    Attributes:
        last: (steps done, loss) of the newest steps, the newest first.
    """

    done: int
    steps: int
    ended_early: str
    is_evaluated: bool
    picture: Markup
    last: list[tuple[int, float]]


async def of(node: Node, job: str) -> Losses | None:
    """The curves of a job; None where it is no training."""

    def look(tx: Tx) -> Any:
        row = rows.load(tx, job)
        scored = tx.rows("select start0 from fold where job = ? and array = 2", (job,))
        return row, arrays.of_job(tx, job), {start for (start,) in scored}

    row, results, scored = await node.store.read(look)
    if row is None or not results:
        return None
    message = msgspec.json.decode(row.program, type=TrainingSubmit)
    first = row.first_step
    found = await asyncio.to_thread(_read, results[0], row.done)
    series = [Series("loss", [(first + 1 + step, loss) for step, loss in _thinned(found)])]
    if message.evaluation is not None and len(results) > 2:
        every = message.evaluation.every
        known = next((n for n in range(row.done // every + 1) if n not in scored), 0)
        points = await asyncio.to_thread(_read, results[2], known)
        series.append(
            Series("evaluation", [(first + every * (1 + n), loss) for n, loss in _thinned(points)])
        )
    return Losses(
        done=row.done,
        steps=message.steps,
        ended_early=row.ended_early,
        is_evaluated=len(series) > 1,
        picture=curves("loss by step", series, "step"),
        last=[(first + 1 + step, loss) for step, loss in found[-10:][::-1]],
    )


def _read(row: ArrayRow, count: int) -> list[tuple[int, float]]:
    """(place, number) of the first `count`; of very many, the first of each equal part and the
    last."""
    if not count:
        return []
    if count <= MOST_READ:
        return [(n, float(one)) for n, one in enumerate(_box(row, 0, count))]
    places = sorted({n * count // MOST_POINTS for n in range(MOST_POINTS)} | {count - 1})
    return [(place, float(_box(row, place, place + 1)[0])) for place in places]


def _box(row: ArrayRow, first: int, last: int) -> Numbers:
    tail = row.shape[1:]
    box = Box((first, *(0 for _ in tail)), (last, *tail))
    return np.frombuffer(bytes(files.read_box(array_file(row), box)), np.float32)


def _thinned(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most so many points as a picture shows: means of equal parts."""
    if len(found) <= MOST_POINTS:
        return found
    parts = np.array_split(np.array(found, np.float64), MOST_POINTS)
    return [(int(part[-1, 0]), float(part[:, 1].mean())) for part in parts]
