"""Synchronous rounds as a plan: micro-batches, their sums, one step of the optimizer, again.

Owns: the numbering of the tasks of a training and what each reads and writes. Must not: know what
an optimizer is; its step is a graph that is passed in.

A training is one plan. The weights of a round are outputs of the step before it, so the machinery
that leases, verifies, recovers and counts tasks does the same for training: a gradient is used by
the one step that names it, in the order of the micro-batches, and only once it is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.microbatches import MicroBatch
from gpugoblin.plan.order import Order
from gpugoblin.plan.spec import (
    ArrayRegion,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
    TaskOutputRef,
)

__all__ = ["GROUP", "STEP_AFFINITY", "Evaluation", "RoundsPlan", "TaskKind"]

GROUP: Final = 16
"""Micro-batches whose gradients one task adds up; their order is that of the batch."""

STEP_AFFINITY: Final = 0
"""The affinity of the tasks that end a round, and of no other."""

TaskKind = Literal["micro", "sum", "step", "evaluate", "score"]
Source = ArrayRegion | TaskOutputRef


def _whole(spec: TensorSpec) -> Region:
    return Region((0,) * spec.rank, spec.shape)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The loss on data that is not trained on, every `every` rounds.

    Args:
        micro: the task of a part of it. score: the graph of their mean. parts: how many there are.
        arrays: where its data begins among the job's inputs. key: where its keys are.
    """

    every: int
    micro: MicroBatch
    score: Graph
    parts: int
    arrays: int
    key: int


@dataclass(frozen=True)
class RoundsPlan:
    """The plan of a training.

    The job's inputs: what is carried from step to step (parameters, buffers, counts, then the
    state of the optimizer), the numbers of the steps (rounds,), the keys (2 * rounds * micros,),
    the data arrays, the flat fixed arrays, then the data of the evaluation and its keys
    (2 * parts,).
    Its results: the losses (rounds,), the norms of gradients (rounds, parameters), the losses of
    the evaluation.

    Args:
        micro: the task of a micro-batch. sums: adds the outputs of `GROUP` of them, by number of
            addends; empty where there are no more than that.
        step: inputs: what is carried, the number of the step (1,), then what the micro-batches (or
            their sums) give, all of the first output, then all of the second. Outputs: what is
            carried, the loss (1,), the norms (1, parameters).
        carried: specs. read: how many of them, from the first, a micro-batch reads.
        rounds, micros: how many. first: the number of the first step.
        tensors: parameters that have a norm of their own.
    """

    micro: MicroBatch
    sums: dict[int, Graph]
    step: Graph
    carried: tuple[TensorSpec, ...]
    read: int
    rounds: int
    micros: int
    first: int
    order: Order
    data: tuple[TensorSpec, ...]
    fixed: tuple[TensorSpec, ...]
    tensors: int
    evaluation: Evaluation | None = None
    evaluated: tuple[TensorSpec, ...] = ()

    # The numbering.

    @property
    def groups(self) -> int:
        """Tasks that add up; none where a step takes all micro-batches itself."""
        return -(-self.micros // GROUP) if self.micros > GROUP else 0

    @property
    def round_tasks(self) -> int:
        """Tasks of a round without evaluation."""
        return self.micros + self.groups + 1

    @property
    def _block(self) -> tuple[int, int]:
        """Rounds and tasks from one evaluation to the next."""
        if self.evaluation is None:
            return self.rounds, self.rounds * self.round_tasks
        every = self.evaluation.every
        return every, every * self.round_tasks + self.evaluation.parts + 1

    @property
    def count(self) -> int:
        if self.evaluation is None:
            return self.rounds * self.round_tasks
        rounds, tasks = self._block
        return self.rounds // rounds * tasks + self.rounds % rounds * self.round_tasks

    def place(self, index: int) -> tuple[TaskKind, int, int]:
        """What a task is, its round (or evaluation), and its number there.

        Raises:
            PlanError: `plan_task_unknown`.
        """
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        rounds, tasks = self._block
        block, rest = divmod(index, tasks)
        inside, number = divmod(rest, self.round_tasks)
        if self.evaluation is not None and inside >= rounds:
            number = rest - rounds * self.round_tasks
            kind: TaskKind = "evaluate" if number < self.evaluation.parts else "score"
            return kind, block, number if kind == "evaluate" else 0
        turn = block * rounds + inside
        if number < self.micros:
            return "micro", turn, number
        if number < self.micros + self.groups:
            return "sum", turn, number - self.micros
        return "step", turn, 0

    def first_task(self, turn: int) -> int:
        """The number of the first task of a round."""
        rounds, tasks = self._block
        block, inside = divmod(turn, rounds)
        return block * tasks + inside * self.round_tasks

    def step_task(self, turn: int) -> int:
        """The number of the task that ends a round."""
        return self.first_task(turn) + self.round_tasks - 1

    def _evaluate_task(self, number: int) -> int:
        rounds, tasks = self._block
        return number * tasks + rounds * self.round_tasks

    @property
    def lead(self) -> int:
        """Tasks before the first round."""
        return 0

    @property
    def flat(self) -> tuple[TensorSpec, ...]:
        """The arrays that what is carried begins as, the first of the job's inputs."""
        return self.carried

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """What each carried tensor is: a kind of `CARRIED`, or `state` with its number."""
        own = self.micro.carried
        state = len(self.carried) - len(own)
        return (*((kind, 0) for kind in own), *(("state", slot) for slot in range(state)))

    @property
    def steps(self) -> dict[int, tuple[int, ...]]:
        """Place in a round of each task that steps, and which carried tensors it gives."""
        return {self.round_tasks - 1: tuple(range(len(self.carried)))}

    @property
    def stages(self) -> int:
        return 1

    def graphs(self) -> list[Graph]:
        """Every graph of it."""
        found = [self.micro.graph, self.step, *self.sums.values()]
        if self.evaluation is not None:
            found += [self.evaluation.micro.graph, self.evaluation.score]
        return found

    # The job's arrays.

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        keys = TensorSpec("int64", (2 * self.rounds * self.micros,))
        before = (*self.carried, TensorSpec("int64", (self.rounds,)), keys)
        found = (*before, *self.data, *self.fixed, *self.evaluated)
        if self.evaluation is not None and self.evaluation.micro.keyed:
            return (*found, TensorSpec("int64", (2 * self.evaluation.parts,)))
        return found

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        losses = TensorSpec("float32", (self.rounds,))
        norms = TensorSpec("float32", (self.rounds, self.tensors))
        if self.evaluation is None:
            return (losses, norms)
        return (losses, norms, TensorSpec("float32", (self.rounds // self.evaluation.every,)))

    @property
    def _steps(self) -> int:
        """Where the numbers of the steps are among the inputs."""
        return len(self.carried)

    @property
    def _data(self) -> int:
        return len(self.carried) + 2

    def _carried(self, turn: int, number: int) -> Source:
        """A carried tensor as it is before a round."""
        if turn == 0:
            return ArrayRegion(number, _whole(self.carried[number]))
        return TaskOutputRef(self.step_task(turn - 1), number)

    # The tasks.

    def task(self, index: int) -> PlannedTask:
        """A task. Raises PlanError `plan_task_unknown`."""
        kind, turn, number = self.place(index)
        if kind == "micro":
            return self._micro(index, turn, number)
        if kind == "sum":
            return self._sum(index, turn, number)
        if kind == "step":
            return self._step(index, turn)
        if kind == "evaluate":
            return self._evaluate(index, turn, number)
        return self._score(index, turn)

    def _micro(self, index: int, turn: int, number: int) -> PlannedTask:
        rows = self.order.rows(self.first + turn, number * self.micro.rows, self.micro.rows)
        inputs: list[Source] = [self._carried(turn, one) for one in range(self.read)]
        for place, spec in enumerate(self.data):
            region = Region((0,) * spec.rank, (len(rows), *spec.shape[1:]))
            inputs.append(ArrayRegion(self._data + place, region, rows))
        if self.micro.keyed:
            at = 2 * (turn * self.micros + number)
            inputs.append(ArrayRegion(self._steps + 1, Region((at,), (at + 2,))))
        for place, spec in enumerate(self.fixed):
            inputs.append(ArrayRegion(self._data + len(self.data) + place, _whole(spec)))
        places = self._kept(self.micro.graph)
        return self._planned(index, self.micro.graph, inputs, places, 1, turn)

    def _group(self, number: int) -> range:
        return range(number * GROUP, min(self.micros, (number + 1) * GROUP))

    def _sum(self, index: int, turn: int, number: int) -> PlannedTask:
        first = self.first_task(turn)
        members = self._group(number)
        graph = self.sums[len(members)]
        inputs: list[Source] = [
            TaskOutputRef(first + member, output)
            for output in range(len(self.micro.graph.outputs))
            for member in members
        ]
        return self._planned(index, graph, inputs, self._kept(graph), 2, turn)

    def _step(self, index: int, turn: int) -> PlannedTask:
        first = self.first_task(turn)
        inputs = [self._carried(turn, one) for one in range(len(self.carried))]
        inputs.append(ArrayRegion(self._steps, Region((turn,), (turn + 1,))))
        if self.groups:
            givers = range(first + self.micros, first + self.micros + self.groups)
        else:
            givers = range(first, first + self.micros)
        inputs += [
            TaskOutputRef(giver, output)
            for output in range(len(self.micro.graph.outputs))
            for giver in givers
        ]
        specs = self.step.output_specs()
        places = [OutputPlace(None, _whole(spec)) for spec in specs[:-2]]
        places.append(OutputPlace(0, Region((turn,), (turn + 1,))))
        places.append(OutputPlace(1, Region((turn, 0), (turn + 1, self.tensors))))
        return self._planned(index, self.step, inputs, places, STEP_AFFINITY, turn)

    def _evaluate(self, index: int, block: int, part: int) -> PlannedTask:
        found = self._evaluation
        turn = (block + 1) * found.every
        inputs: list[Source] = [self._carried(turn, one) for one in range(len(found.micro.carried))]
        rows = found.micro.rows
        for place, spec in enumerate(self.evaluated):
            start, stop = (part * rows, *(0 for _ in spec.shape[1:])), (part + 1) * rows
            region = Region(start, (stop, *spec.shape[1:]))
            inputs.append(ArrayRegion(found.arrays + place, region))
        if found.micro.keyed:
            inputs.append(ArrayRegion(found.key, Region((2 * part,), (2 * part + 2,))))
        for place, spec in enumerate(self.fixed):
            inputs.append(ArrayRegion(self._data + len(self.data) + place, _whole(spec)))
        places = self._kept(found.micro.graph)
        return self._planned(index, found.micro.graph, inputs, places, 3, turn)

    def _score(self, index: int, block: int) -> PlannedTask:
        found = self._evaluation
        first = self._evaluate_task(block)
        inputs = [TaskOutputRef(first + part, 0) for part in range(found.parts)]
        places = [OutputPlace(2, Region((block,), (block + 1,)))]
        return self._planned(index, found.score, inputs, places, 4, (block + 1) * found.every)

    @property
    def _evaluation(self) -> Evaluation:
        if self.evaluation is None:
            raise LookupError("this training has no evaluation")
        return self.evaluation

    def _kept(self, graph: Graph) -> list[OutputPlace]:
        return [OutputPlace(None, _whole(spec)) for spec in graph.output_specs()]

    @cached_property
    def _costs(self) -> dict[int, tuple[int, int]]:
        """Flops and memory by the identity of a graph: there are few, each serves many tasks."""
        return {id(graph): (cost(graph).flops, bound(graph)) for graph in self.graphs()}

    def _planned(
        self, index: int, graph: Graph, inputs: Sequence[Source], outputs: Sequence[OutputPlace],
        affinity: int, turn: int,
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
        kind, turn, number = self.place(index)
        if kind == "score":
            return ()
        if kind == "evaluate":
            return (self._evaluate_task(turn) + self._evaluation.parts,)
        if kind == "sum" or (kind == "micro" and not self.groups):
            return (self.step_task(turn),)
        if kind == "micro":
            return (self.first_task(turn) + self.micros + number // GROUP,)
        found: list[int] = []
        if self.evaluation is not None and (turn + 1) % self.evaluation.every == 0:
            first = self._evaluate_task((turn + 1) // self.evaluation.every - 1)
            found.extend(range(first, first + self.evaluation.parts))
        if turn + 1 < self.rounds:
            first = self.first_task(turn + 1)
            found.extend(range(first, first + self.micros))
            found.append(self.step_task(turn + 1))
        return tuple(found)

    def summary(self) -> PlanSummary:
        """The figures. Every task is verified by recomputing or agreement, so that costs as much
        as the work itself."""
        kinds = [(self.rounds * self.micros, self.micro.graph), (self.rounds, self.step)]
        sizes = [len(self._group(group)) for group in range(self.groups)]
        kinds += [(self.rounds, self.sums[size]) for size in sizes]
        if self.evaluation is not None:
            times = self.rounds // self.evaluation.every
            kinds += [
                (times * self.evaluation.parts, self.evaluation.micro.graph),
                (times, self.evaluation.score),
            ]
        flops = sum(times * self._costs[id(graph)][0] for times, graph in kinds)
        return PlanSummary(
            kind="training",
            tasks=self.count,
            flops=flops,
            verify_flops=flops,
            bytes_in=sum(n * sum(s.nbytes for s in graph.inputs) for n, graph in kinds),
            bytes_out=sum(n * sum(s.nbytes for s in graph.output_specs()) for n, graph in kinds),
            memory_bound_bytes=max(memory for _, memory in self._costs.values()),
            tile=(self.micro.rows,),
        )
