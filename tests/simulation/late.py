"""A training whose rounds may end without all their shards, in the simulated world.

Owns: `LateWorld`: its generator asks the real rules whether a round is over, and stops until it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.arrivals import Decided
from gpugoblin.plan.order import Order
from gpugoblin.plan.round_items import STEP_AFFINITY, Item, Lateness, Source, Stored
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import TaskOutputRef
from server_stub.node.state import tasks
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.training import closing, rows
from tests.simulation.cast import FLOAT32, SPEC, Shape, digest_of
from tests.simulation.world import World

__all__ = ["LateShape", "LateWorld", "rounds_plan"]


def _graph(inputs: int) -> Graph:
    return Graph((SPEC,) * inputs, (), (), (0,))


def _step(here: tuple[int, ...], late: tuple[int, ...]) -> Item:
    sources = (
        Source("carried"),
        *(Source("item", shard) for shard in here),
        *(Source("earlier", shard) for shard in late),
    )
    return Item(_graph(len(sources)), sources, STEP_AFFINITY, (None,), (0,))


def rounds_plan(rounds: int, shards: int, quorum: int, record: tuple[str, ...] = ()) -> RoundsPlan:
    """Rounds of tasks with one output each; the same rules as those of a real training."""
    every = tuple(range(shards))
    items = (*(Item(_graph(1), (Source("carried"),), 1) for _ in every), _step(every, ()))
    largest = _step(every, every[quorum:]).graph
    return RoundsPlan(
        items=items, stored=(Stored(0, 0, SPEC),), flat=(SPEC,), rounds=rounds, micros=shards,
        rows=1, first=0, order=Order(shards, shards, 0, False), data=(), fixed=(), tensors=1,
        parts=(("parameter", 0),), lateness=Lateness(quorum, _step, largest, record),
    )  # fmt: skip


@dataclass
class LateShape:
    """What the world and its invariants ask of a plan, by the records that there are."""

    plan: RoundsPlan
    masks: dict[int, str] = field(default_factory=dict)
    graph: str = digest_of("late")
    dtypes: int = FLOAT32

    @property
    def count(self) -> int:
        return self.plan.count

    def _inputs(self, index: int) -> tuple[Any, ...]:
        return Decided(self.plan, self.masks, index).task(index).inputs

    def sources(self, index: int) -> tuple[int, ...]:
        return tuple(one.task for one in self._inputs(index) if isinstance(one, TaskOutputRef))

    def read(self, index: int) -> tuple[str, ...]:
        given = self._inputs(index)
        return () if isinstance(given[0], TaskOutputRef) else (f"r{given[0].region.start}",)


class LateWorld(World):
    """A world with one training. `records()`: how its rounds have ended."""

    def begin(self, plan: RoundsPlan) -> str:
        self.shape = LateShape(plan)
        return self.submit(cast(Shape, self.shape))

    def records(self, job: str) -> dict[int, str]:
        return rows.records(SqliteTx(self.connection), job)

    def generate(self, job: str) -> None:
        plan, masks = self.shape.plan, self.shape.masks
        (cursor,) = self.connection.execute(
            "select cursor from job where id = ?", (job,)
        ).fetchone()
        if cursor >= plan.count:
            return
        masks.update(self.records(job))
        found = Decided(plan, masks, cursor)
        if found.count <= cursor:
            self.try_handle(lambda step: closing.close(step, job, plan, plan.turn_from(cursor)))
            return
        batch = [
            (found.task(index), self.shape.graph, len(found.consumers(index)))
            for index in range(cursor, min(found.count, cursor + 4))
        ]
        self.try_handle(lambda step: tasks.generate(step, job, cursor, batch))
