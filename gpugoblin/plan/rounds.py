"""Rounds of a training as a plan: tasks that compute, the steps that end a round, again.

Owns: the one core of all trainings: from the template of a round and that of an evaluation the
numbering of their tasks, and what each reads and writes. Must not: know what a model or an
optimizer is; `whole_rounds` makes the template of a model that an engine holds, the lab node that
of one in stages.

A training is one plan. The weights of a round are outputs of the steps before it, so the machinery
that leases, verifies, recovers and counts tasks does the same for training: a gradient is used by
the one task that names it, in the order of the micro-batches, and only once it is verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.order import Order
from gpugoblin.plan.round_items import Evaluation, Item, Lateness, Source, Stored, read_by
from gpugoblin.plan.spec import (
    ArrayRegion,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
    TaskOutputRef,
)

__all__ = ["RoundsPlan"]

_Given = ArrayRegion | TaskOutputRef


@dataclass(frozen=True)
class RoundsPlan:
    """The plan of a training.

    The job's inputs: the flat arrays of what is carried (parameters, buffers, counts, then the
    state of the optimizer), the numbers of the steps (rounds * span,), the keys
    (2 * rounds * micros * span,),
    the data arrays, the flat fixed arrays, then the data of the evaluation and its keys.
    Its results: the losses (rounds,), the norms of gradients (rounds, parameters), the losses of
    the evaluation.

    Args:
        items: of a round, each after those that it reads.
        stored: where each carried tensor is before the first round, in the arrays `flat`.
        rounds, micros: how many. rows: examples of a micro-batch. first: the first step's number.
        tensors: parameters that have a norm of their own.
        parts: what each carried tensor is: a kind of `CARRIED`, or `state` with the number of the
            flat tensor of the state that it is a part of.
        stages: into how many the model is cut; for people. span: steps of the optimizer that a
            micro-batch's task makes: numbers of steps and keys are there for each.
        deals: groups of carried tensors that one task cuts out of flat arrays before the first
            round, and their graphs; none where tensors are carried flat.
        lateness: where rounds may end without all their micro-batches; then the plan itself is
            that in which none is late.
    """

    items: tuple[Item, ...]
    stored: tuple[Stored, ...]
    flat: tuple[TensorSpec, ...]
    rounds: int
    micros: int
    rows: int
    first: int
    order: Order
    data: tuple[TensorSpec, ...]
    fixed: tuple[TensorSpec, ...]
    tensors: int
    parts: tuple[tuple[str, int], ...]
    stages: int = 1
    span: int = 1
    deals: tuple[tuple[tuple[int, ...], Graph], ...] = ()
    evaluation: Evaluation | None = None
    lateness: Lateness | None = None

    # The numbering.

    @property
    def carried(self) -> tuple[TensorSpec, ...]:
        return tuple(one.spec for one in self.stored)

    @property
    def steps(self) -> dict[int, tuple[int, ...]]:
        """Place in a round of each task that steps, and which carried tensors it gives."""
        return {place: item.carried for place, item in enumerate(self.items) if item.carried}

    @property
    def lead(self) -> int:
        """Tasks before the first round."""
        return len(self.deals)

    @property
    def round_tasks(self) -> int:
        """Tasks of a round without evaluation."""
        return len(self.items)

    @property
    def _block(self) -> tuple[int, int]:
        """Rounds and tasks from one evaluation to the next."""
        if self.evaluation is None:
            return self.rounds, self.rounds * self.round_tasks
        every = self.evaluation.every
        return every, every * self.round_tasks + len(self.evaluation.items)

    @property
    def count(self) -> int:
        rounds, tasks = self._block
        whole, rest = divmod(self.rounds, rounds)
        return self.lead + whole * tasks + rest * self.round_tasks

    def _place(self, index: int) -> tuple[bool, int, int]:
        """Of a task after the first deals: whether an evaluation's, which round or evaluation, and
        which item there."""
        rounds, tasks = self._block
        block, rest = divmod(index - self.lead, tasks)
        inside, place = divmod(rest, self.round_tasks)
        if self.evaluation is not None and inside >= rounds:
            return True, block, rest - rounds * self.round_tasks
        return False, block * rounds + inside, place

    def first_task(self, turn: int) -> int:
        """The number of the first task of a round."""
        rounds, tasks = self._block
        block, inside = divmod(turn, rounds)
        return self.lead + block * tasks + inside * self.round_tasks

    def step_task(self, turn: int) -> int:
        """The number of the last task of a round, which steps."""
        return self.first_task(turn) + self.round_tasks - 1

    def turn_from(self, index: int) -> int:
        """The first round whose last task is task `index` or one after it."""
        if index < self.lead:
            return 0
        held, turn, _ = self._place(index)
        return (turn + 1) * self._block[0] if held else turn

    def _evaluation_task(self, number: int) -> int:
        """The number of the first task of an evaluation."""
        rounds, tasks = self._block
        return self.lead + number * tasks + rounds * self.round_tasks

    @property
    def _evaluation(self) -> Evaluation:
        if self.evaluation is None:
            raise LookupError("this training has no evaluation")
        return self.evaluation

    # The job's arrays.

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        numbers = TensorSpec("int64", (self.rounds * self.span,))
        keys = TensorSpec("int64", (2 * self.rounds * self.micros * self.span,))
        found = (*self.flat, numbers, keys, *self.data, *self.fixed)
        if self.evaluation is None:
            return found
        own = (TensorSpec("int64", (2 * self.evaluation.parts,)),) if self.evaluation.keyed else ()
        return (*found, *self.evaluation.data, *own)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        losses = TensorSpec("float32", (self.rounds,))
        norms = TensorSpec("float32", (self.rounds, self.tensors))
        if self.evaluation is None:
            return (losses, norms)
        return (losses, norms, TensorSpec("float32", (self.rounds // self.evaluation.every,)))

    # Who gives and who reads.

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
        """For each tensor that is dealt the task and the output that it is."""
        return {
            number: (place, slot)
            for place, (numbers, _) in enumerate(self.deals)
            for slot, number in enumerate(numbers)
        }

    @cached_property
    def _readers(self) -> tuple[dict[int, list[int]], dict[int, list[int]], dict[int, list[int]]]:
        """For each item those that read it: in its round, in the next, in an evaluation."""
        here, later = read_by(self.items, self._givers)
        held = self.evaluation.items if self.evaluation else ()
        return here, later, read_by(held, self._givers)[1]

    @cached_property
    def _held_readers(self) -> dict[int, list[int]]:
        """For each item of an evaluation those that read it."""
        return read_by(self._evaluation.items, {})[0]

    # The tasks.

    def task(self, index: int) -> PlannedTask:
        """A task. Raises PlanError `plan_task_unknown`."""
        self._require(index)
        if index < self.lead:
            return self._deal(index)
        held, turn, place = self._place(index)
        if held:
            item = self._evaluation.items[place]
            seen = (turn + 1) * self._evaluation.every
            inputs = [self._held_input(turn, source) for source in item.sources]
        else:
            item, seen = self.items[place], turn
            inputs = [self._input(turn, source) for source in item.sources]
        return self._of_item(index, item, inputs, turn, seen)

    def step(self, turn: int, item: Item) -> PlannedTask:
        """The last task of a round, with this item in the place of the usual one."""
        inputs = [self._input(turn, source) for source in item.sources]
        return self._of_item(self.step_task(turn), item, inputs, turn, turn)

    def _of_item(
        self, index: int, item: Item, inputs: Sequence[_Given], turn: int, seen: int
    ) -> PlannedTask:
        series = item.series or (None,) * len(item.graph.outputs)
        outputs = [
            OutputPlace(None, _whole(spec)) if number is None else _row(number, turn, spec)
            for number, spec in zip(series, item.graph.output_specs(), strict=True)
        ]
        return self._planned(index, item.graph, inputs, outputs, item.affinity, seen)

    def _require(self, index: int) -> None:
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)

    def _deal(self, index: int) -> PlannedTask:
        numbers, graph = self.deals[index]
        inputs = [self._at_first(number) for number in numbers]
        outputs = [OutputPlace(None, _whole(spec)) for spec in graph.output_specs()]
        return self._planned(index, graph, inputs, outputs, 1, 0)

    def _at_first(self, number: int) -> ArrayRegion:
        one = self.stored[number]
        return ArrayRegion(one.array, Region((one.offset,), (one.offset + one.spec.count,)))

    def _carried(self, turn: int, number: int) -> _Given:
        """A carried tensor as it is before a round."""
        if turn > 0:
            place, slot = self._givers[number]
            return TaskOutputRef(self.first_task(turn - 1) + place, slot)
        dealt = self._dealers.get(number)
        return self._at_first(number) if dealt is None else TaskOutputRef(*dealt)

    def _input(self, turn: int, source: Source) -> _Given:
        if source.kind == "item":
            return TaskOutputRef(self.first_task(turn) + source.number, source.slot)
        if source.kind == "earlier":
            return TaskOutputRef(self.first_task(turn - 1) + source.number, source.slot)
        if source.kind == "carried":
            return self._carried(turn, source.number)
        if source.kind == "data":
            spec = self.data[source.number]
            rows = self.order.rows(self.first + turn, source.slot * self.rows, self.rows)
            region = Region((0,) * spec.rank, (len(rows), *spec.shape[1:]))
            return ArrayRegion(len(self.flat) + 2 + source.number, region, rows)
        if source.kind == "key":
            count = 2 * self.span
            at = count * (turn * self.micros + source.slot)
            return ArrayRegion(len(self.flat) + 1, Region((at,), (at + count,)))
        if source.kind == "fixed":
            return self._fixed(source)
        region = Region((turn * self.span,), ((turn + 1) * self.span,))
        return ArrayRegion(len(self.flat), region)

    def _fixed(self, source: Source) -> ArrayRegion:
        region = Region((source.slot,), (source.slot + source.count,))
        return ArrayRegion(len(self.flat) + 2 + len(self.data) + source.number, region)

    def _held_input(self, number: int, source: Source) -> _Given:
        """An input of an item of an evaluation."""
        held = self._evaluation
        first = len(self.flat) + 2 + len(self.data) + len(self.fixed)
        if source.kind == "item":
            return TaskOutputRef(self._evaluation_task(number) + source.number, source.slot)
        if source.kind == "data":
            tail = held.data[source.number].shape[1:]
            start, stop = source.slot * held.rows, (source.slot + 1) * held.rows
            region = Region((start, *(0 for _ in tail)), (stop, *tail))
            return ArrayRegion(first + source.number, region)
        if source.kind == "key":
            at = 2 * source.slot
            return ArrayRegion(first + len(held.data), Region((at,), (at + 2,)))
        if source.kind == "fixed":
            return self._fixed(source)
        return self._carried((number + 1) * held.every, source.number)

    @cached_property
    def _costs(self) -> dict[int, tuple[int, int]]:
        """Flops and memory by the identity of a graph: there are few, each serves many tasks."""
        return {id(graph): (cost(graph).flops, bound(graph)) for graph in self.graphs()}

    def _planned(
        self, index: int, graph: Graph, inputs: Sequence[_Given], outputs: Sequence[OutputPlace],
        affinity: int, turn: int,
    ) -> PlannedTask:  # fmt: skip
        known = self._costs.get(id(graph))
        flops, memory_bytes = known or (cost(graph).flops, bound(graph))
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
        self._require(index)
        if index < self.lead:
            numbers = set(self.deals[index][0])
            first = self.first_task(0)
            return tuple(
                first + place
                for place, item in enumerate(self.items)
                if any(one.kind == "carried" and one.number in numbers for one in item.sources)
            )
        held, turn, place = self._place(index)
        if held:
            first = self._evaluation_task(turn)
            return tuple(first + one for one in self._held_readers.get(place, ()))
        here, later, evaluating = self._readers
        found = [self.first_task(turn) + one for one in here.get(place, ())]
        if self.evaluation is not None and (turn + 1) % self.evaluation.every == 0:
            first = self._evaluation_task((turn + 1) // self.evaluation.every - 1)
            found += [first + one for one in evaluating.get(place, ())]
        if turn + 1 < self.rounds:
            found += [self.first_task(turn + 1) + one for one in later.get(place, ())]
        return tuple(found)

    # The figures.

    @cached_property
    def _times(self) -> list[tuple[int, Graph]]:
        """Every graph, once, and how many tasks it is."""
        times: Counter[int] = Counter()
        graphs: dict[int, Graph] = {}

        def count(graph: Graph, often: int) -> None:
            graphs[id(graph)] = graph
            times[id(graph)] += often

        for item in self.items:
            count(item.graph, self.rounds)
        for _, graph in self.deals:
            count(graph, 1)
        if self.lateness is not None:
            count(self.lateness.largest, 0)
        if self.evaluation is not None:
            for item in self.evaluation.items:
                count(item.graph, self.rounds // self.evaluation.every)
        return [(times[name], graph) for name, graph in graphs.items()]

    def graphs(self) -> list[Graph]:
        """Every graph of it."""
        return [graph for _, graph in self._times]

    def summary(self) -> PlanSummary:
        """The figures. Every task is verified by recomputing or agreement, so that costs as much
        as the work itself."""
        kinds = self._times
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


def _whole(spec: TensorSpec) -> Region:
    return Region((0,) * spec.rank, spec.shape)


def _row(number: int, turn: int, spec: TensorSpec) -> OutputPlace:
    tail = spec.shape[1:]
    return OutputPlace(number, Region((turn, *(0 for _ in tail)), (turn + 1, *tail)))
