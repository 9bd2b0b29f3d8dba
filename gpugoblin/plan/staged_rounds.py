"""Rounds of a model that no engine can hold: the same plan, cut into stages.

Owns: the template of a round (each micro-batch forward through the stages and back, sums of
gradients, one verdict on all of them, a step for each group of tensors) and its tasks. Must not:
know an optimizer; the graphs of a round's end are passed in.

Each tensor is carried by itself, so a stage is sent the weights that it reads and no others. Before
the first round the flat arrays that a training begins with are dealt out into tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.order import Order
from gpugoblin.plan.spec import (
    ArrayRegion,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
    TaskOutputRef,
)

__all__ = ["Item", "Source", "StagedPlan", "Stored"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A carried tensor before the first round: elements of a flat array of the job."""

    array: int
    offset: int
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class Source:
    """What an input of an item is.

    Args:
        kind: `carried`: tensor `number`, as it is before the round. `item`: output `slot` of item
            `number` of the same round. `data`: rows of data array `number` for micro-batch `slot`.
            `key`: of micro-batch `slot`. `fixed`: `count` elements of flat fixed array `number`
            from `slot` on. `step`: the number of the step.
    """

    kind: Literal["carried", "item", "data", "key", "fixed", "step"]
    number: int = 0
    slot: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """A task of every round.

    Args:
        series: for each output the job's result that gets a row of it, or None.
        carried: for a step, which carried tensors its outputs are.
    """

    graph: Graph
    sources: tuple[Source, ...]
    affinity: int
    series: tuple[int | None, ...] = ()
    carried: tuple[int, ...] = ()


@dataclass(frozen=True)
class StagedPlan:
    """The plan of a training in stages.

    Args:
        items: of a round, each after those that it reads.
        deals: groups of carried tensors that one task deals out, and their graphs.
        flat: specs of the arrays that are dealt, the first of the job's inputs.
        stored: where each carried tensor is in them.
        rows: examples of a micro-batch. tensors: parameters that have a norm.
        stages: how many there are; for people. parts: what each carried tensor is: `parameter`, or
            `state` with the number of the flat tensor of the state that it is a part of.
    """

    items: tuple[Item, ...]
    deals: tuple[tuple[tuple[int, ...], Graph], ...]
    flat: tuple[TensorSpec, ...]
    stored: tuple[Stored, ...]
    rounds: int
    micros: int
    rows: int
    first: int
    order: Order
    data: tuple[TensorSpec, ...]
    fixed: tuple[TensorSpec, ...]
    tensors: int
    stages: int
    parts: tuple[tuple[str, int], ...]

    @property
    def steps(self) -> dict[int, tuple[int, ...]]:
        """Place in a round of each task that steps, and which carried tensors it gives."""
        return {place: item.carried for place, item in enumerate(self.items) if item.carried}

    @property
    def carried(self) -> tuple[TensorSpec, ...]:
        return tuple(one.spec for one in self.stored)

    @property
    def lead(self) -> int:
        """Tasks before the first round."""
        return len(self.deals)

    @property
    def round_tasks(self) -> int:
        return len(self.items)

    @property
    def count(self) -> int:
        return self.lead + self.rounds * self.round_tasks

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        numbers = TensorSpec("int64", (self.rounds,))
        keys = TensorSpec("int64", (2 * self.rounds * self.micros,))
        return (*self.flat, numbers, keys, *self.data, *self.fixed)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        losses = TensorSpec("float32", (self.rounds,))
        return (losses, TensorSpec("float32", (self.rounds, self.tensors)))

    def first_task(self, turn: int) -> int:
        """The number of the first task of a round."""
        return self.lead + turn * self.round_tasks

    def step_task(self, turn: int) -> int:
        """The number of the last task of a round."""
        return self.first_task(turn) + self.round_tasks - 1

    @cached_property
    def _givers(self) -> dict[int, tuple[int, int]]:
        """For each carried tensor the item and the output that it is after a round."""
        return {
            number: (place, slot)
            for place, item in enumerate(self.items)
            for slot, number in enumerate(item.carried)
        }

    @cached_property
    def _dealers(self) -> dict[int, tuple[int, int]]:
        """For each carried tensor the task and the output that it is before the first round."""
        return {
            number: (place, slot)
            for place, (numbers, _) in enumerate(self.deals)
            for slot, number in enumerate(numbers)
        }

    @cached_property
    def _readers(self) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each item the items that read it in its round, and in the next."""
        here: dict[int, set[int]] = {place: set() for place in range(len(self.items))}
        later: dict[int, set[int]] = {place: set() for place in range(len(self.items))}
        for place, item in enumerate(self.items):
            for source in item.sources:
                if source.kind == "item":
                    here[source.number].add(place)
                elif source.kind == "carried":
                    later[self._givers[source.number][0]].add(place)
        return {place: (tuple(sorted(here[place])), tuple(sorted(later[place]))) for place in here}

    @cached_property
    def _costs(self) -> dict[int, tuple[int, int]]:
        graphs = [*(item.graph for item in self.items), *(graph for _, graph in self.deals)]
        return {id(graph): (cost(graph).flops, bound(graph)) for graph in graphs}

    def task(self, index: int) -> PlannedTask:
        """A task. Raises PlanError `plan_task_unknown`."""
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        if index < self.lead:
            return self._deal(index)
        turn, place = divmod(index - self.lead, self.round_tasks)
        item = self.items[place]
        inputs = [self._input(turn, source) for source in item.sources]
        series = item.series or (None,) * len(item.graph.outputs)
        outputs = [
            OutputPlace(None, _whole(spec)) if number is None else _row(number, turn, spec)
            for number, spec in zip(series, item.graph.output_specs(), strict=True)
        ]
        return self._planned(index, item.graph, inputs, outputs, item.affinity, turn)

    def _deal(self, index: int) -> PlannedTask:
        numbers, graph = self.deals[index]
        inputs: list[ArrayRegion | TaskOutputRef] = []
        for number in numbers:
            one = self.stored[number]
            region = Region((one.offset,), (one.offset + one.spec.count,))
            inputs.append(ArrayRegion(one.array, region))
        outputs = [OutputPlace(None, _whole(spec)) for spec in graph.output_specs()]
        return self._planned(index, graph, inputs, outputs, 1, 0)

    def _input(self, turn: int, source: Source) -> ArrayRegion | TaskOutputRef:
        after = len(self.flat) + 2
        if source.kind == "item":
            return TaskOutputRef(self.first_task(turn) + source.number, source.slot)
        if source.kind == "carried":
            if turn == 0:
                return TaskOutputRef(*self._dealers[source.number])
            place, slot = self._givers[source.number]
            return TaskOutputRef(self.first_task(turn - 1) + place, slot)
        if source.kind == "data":
            spec = self.data[source.number]
            rows = self.order.rows(self.first + turn, source.slot * self.rows, self.rows)
            region = Region((0,) * spec.rank, (len(rows), *spec.shape[1:]))
            return ArrayRegion(after + source.number, region, rows)
        if source.kind == "key":
            at = 2 * (turn * self.micros + source.slot)
            return ArrayRegion(len(self.flat) + 1, Region((at,), (at + 2,)))
        if source.kind == "fixed":
            region = Region((source.slot,), (source.slot + source.count,))
            return ArrayRegion(after + len(self.data) + source.number, region)
        return ArrayRegion(len(self.flat), Region((turn,), (turn + 1,)))

    def _planned(
        self, index: int, graph: Graph, inputs: Sequence[ArrayRegion | TaskOutputRef],
        outputs: Sequence[OutputPlace], affinity: int, turn: int,
    ) -> PlannedTask:  # fmt: skip
        flops, memory_bytes = self._costs[id(graph)]
        depends = {source.task for source in inputs if isinstance(source, TaskOutputRef)}
        return PlannedTask(
            index=index, graph=graph, inputs=tuple(inputs), outputs=tuple(outputs),
            verify="recompute", verify_flops=flops, flops=flops,
            bytes_moved=sum(spec.nbytes for spec in (*graph.inputs, *graph.output_specs())),
            memory_bound_bytes=memory_bytes, affinity=affinity, depends_on=tuple(sorted(depends)),
            weight_version=self.first + turn,
        )  # fmt: skip

    def consumers(self, index: int) -> tuple[int, ...]:
        """Indices of the tasks that read an output of a task, sorted."""
        self.task(index)
        if index < self.lead:
            numbers = set(self.deals[index][0])
            first = self.first_task(0)
            return tuple(
                first + place
                for place, item in enumerate(self.items)
                if any(one.kind == "carried" and one.number in numbers for one in item.sources)
            )
        turn, place = divmod(index - self.lead, self.round_tasks)
        here, later = self._readers[place]
        found = [self.first_task(turn) + one for one in here]
        if turn + 1 < self.rounds:
            found += [self.first_task(turn + 1) + one for one in later]
        return tuple(found)

    def summary(self) -> PlanSummary:
        """The figures; every task is verified by recomputing or agreement."""
        kinds = [(self.rounds, item.graph) for item in self.items]
        kinds += [(1, graph) for _, graph in self.deals]
        flops = sum(times * self._costs[id(graph)][0] for times, graph in kinds)
        return PlanSummary(
            kind="training",
            tasks=self.count,
            flops=flops,
            verify_flops=flops,
            bytes_in=sum(n * sum(s.nbytes for s in graph.inputs) for n, graph in kinds),
            bytes_out=sum(n * sum(s.nbytes for s in graph.output_specs()) for n, graph in kinds),
            memory_bound_bytes=max(memory for _, memory in self._costs.values()),
            tile=(self.rows,),
        )

    def graphs(self) -> list[Graph]:
        """Every graph of it."""
        return [*(item.graph for item in self.items), *(graph for _, graph in self.deals)]


def _whole(spec: TensorSpec) -> Region:
    return Region((0,) * spec.rank, spec.shape)


def _row(number: int, turn: int, spec: TensorSpec) -> OutputPlace:
    tail = spec.shape[1:]
    return OutputPlace(number, Region((turn, *(0 for _ in tail)), (turn + 1, *tail)))
