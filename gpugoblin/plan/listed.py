"""Plans whose tasks are written one by one: algorithms that are no tiling of one operator.

Owns: the list, the figures of each task, and the plan over it. Must not: know algorithms.

Such plans are short (hundreds of tasks, thousands at most), as each task is a block of a large
matrix; so the list is made at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpugoblin.catalog.building import joined
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.checks import choose_check
from gpugoblin.plan.figures import MAX_INPUTS
from gpugoblin.plan.grids import Box, Grid, Source, pieces_under, shape_of
from gpugoblin.plan.spec import (
    Limits,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
    TaskOutputRef,
    VerifyMethod,
)

__all__ = ["Draft", "ListedPlan", "TaskWriter", "pruned"]

MOST_TASKS: Final = 20_000


class Draft:
    """One task while it is written: a builder whose inputs know where they come from."""

    def __init__(self) -> None:
        self.build = GraphBuilder()
        self.sources: list[Source] = []
        self._known: dict[Source, int] = {}

    def block(self, grid: Grid, place: tuple[int, ...]) -> int:
        """The block of a grid as an input."""
        return self._input(grid.spec.dtype, shape_of(grid.box(place)), grid.block(place))

    def box(self, grid: Grid, box: Box) -> int:
        """Any box of a grid: one input, or several cut and joined."""
        if grid.array is not None:
            region = Region(tuple(a for a, _ in box), tuple(b for _, b in box))
            return self._input(grid.spec.dtype, shape_of(box), grid.region(region))
        found: dict[tuple[int, ...], int] = {}
        for place in pieces_under(grid, box):
            found[place] = self._cut(self.block(grid, place), grid.box(place), box)
        for axis in range(len(box) - 1, -1, -1):
            together: dict[tuple[int, ...], list[int]] = {}
            for place, value in found.items():
                together.setdefault(place[:axis], []).append(value)
            found = {place: joined(self.build, values, axis) for place, values in together.items()}
        return found[()]

    def whole(self, grid: Grid) -> int:
        """All of a grid."""
        return self.box(grid, tuple((0, extent) for extent in grid.spec.shape))

    def add(self, operator: str, *inputs: int, **attributes: object) -> int:
        return self.build.add(operator, inputs, **attributes)

    def constant(self, array: Array) -> int:
        return self.build.constant(array)

    def _input(self, dtype: str, shape: tuple[int, ...], source: Source) -> int:
        known = self._known.get(source)
        if known is None:
            known = self._known[source] = self.build.input(TensorSpec(dtype, shape))
            self.sources.append(source)
        return known

    def _cut(self, value: int, own: Box, wanted: Box) -> int:
        starts = tuple(max(a, c) - a for (a, _), (c, _) in zip(own, wanted, strict=True))
        stops = tuple(min(b, d) - a for (a, b), (_, d) in zip(own, wanted, strict=True))
        if all(one == 0 for one in starts) and stops == shape_of(own):
            return value
        return self.add("slice", value, start=starts, stop=stops, step=(1,) * len(own))


@dataclass(frozen=True, slots=True)
class _Figures:
    graph: Graph
    flops: int
    verify: VerifyMethod
    verify_flops: int
    bytes_moved: int
    bound_bytes: int


@dataclass(slots=True)
class TaskWriter:
    """Collects tasks in an order in which they can run."""

    limits: Limits
    tasks: list[PlannedTask] = field(default_factory=list)
    _known: dict[Graph, _Figures] = field(default_factory=dict)

    def write(
        self, draft: Draft, values: Sequence[int], places: Sequence[OutputPlace]
    ) -> list[TaskOutputRef]:
        """Adds a task that makes `values`; where to find them.

        Raises:
            PlanError: `plan_does_not_fit`, `plan_too_many_tasks`.
        """
        figures = self._measure(draft.build.build(list(values)))
        index = len(self.tasks)
        if index >= MOST_TASKS:
            raise PlanError(
                "plan_too_many_tasks", limit_bytes=self.limits.memory_bytes, most=MOST_TASKS
            )
        before = {one.task for one in draft.sources if isinstance(one, TaskOutputRef)}
        task = PlannedTask(
            index=index,
            graph=figures.graph,
            inputs=tuple(draft.sources),
            outputs=tuple(places),
            verify=figures.verify,
            verify_flops=figures.verify_flops,
            flops=figures.flops,
            bytes_moved=figures.bytes_moved,
            memory_bound_bytes=figures.bound_bytes,
            affinity=index,
            depends_on=tuple(sorted(before)),
        )
        self.tasks.append(task)
        return [TaskOutputRef(index, slot) for slot in range(len(values))]

    def _measure(self, graph: Graph) -> _Figures:
        known = self._known.get(graph)
        if known is None:
            flops = cost(graph).flops
            verify, verify_flops = choose_check(graph, flops, 1)
            tensors = (*graph.inputs, *graph.output_specs())
            moved = sum(spec.nbytes for spec in tensors)
            known = _Figures(graph, flops, verify, verify_flops, moved, bound(graph))
            self._known[graph] = known
            largest = max((spec.nbytes for spec in tensors), default=0)
            if (
                known.bound_bytes > self.limits.memory_bytes
                or largest > self.limits.slot_bytes
                or len(graph.inputs) > MAX_INPUTS
            ):
                raise self._misfit(known)
        return known

    def _misfit(self, figures: _Figures) -> PlanError:
        graph = figures.graph
        return PlanError(
            "plan_does_not_fit",
            operator=graph.nodes[-1].operator if graph.nodes else "the graph",
            output=str(graph.output_specs()[0]),
            needed_bytes=figures.bound_bytes,
            limit_bytes=self.limits.memory_bytes,
        )


def pruned(tasks: Sequence[PlannedTask]) -> list[PlannedTask]:
    """The tasks that something of the job's results comes from, numbered anew."""
    needed = [any(place.array is not None for place in task.outputs) for task in tasks]
    for task in reversed(tasks):
        if needed[task.index]:
            for before in task.depends_on:
                needed[before] = True
    kept = [task for task in tasks if needed[task.index]]
    numbers = {task.index: number for number, task in enumerate(kept)}
    return [
        replace(
            task,
            index=numbers[task.index],
            affinity=numbers[task.index],
            inputs=tuple(
                TaskOutputRef(numbers[one.task], one.output)
                if isinstance(one, TaskOutputRef)
                else one
                for one in task.inputs
            ),
            depends_on=tuple(numbers[before] for before in task.depends_on),
        )
        for task in kept
    ]


class ListedPlan:
    """A plan over a list of tasks.

    Args:
        tile: extents of chunks in which the outputs may be stored, aligned to their last axes.
    """

    def __init__(
        self, graph: Graph, kind: str, tasks: Sequence[PlannedTask], tile: tuple[int, ...]
    ) -> None:
        self.graph, self.kind, self.tasks, self.tile = graph, kind, tuple(tasks), tile
        self._readers: list[set[int]] = [set() for _ in self.tasks]
        for task in self.tasks:
            for before in task.depends_on:
                self._readers[before].add(task.index)

    @property
    def count(self) -> int:
        return len(self.tasks)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.output_specs()

    def task(self, index: int) -> PlannedTask:
        """Task `index`. Raises PlanError `plan_task_unknown`."""
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        return self.tasks[index]

    def consumers(self, index: int) -> tuple[int, ...]:
        self.task(index)
        return tuple(sorted(self._readers[index]))

    def summary(self) -> PlanSummary:
        outs = [spec.nbytes for task in self.tasks for spec in task.graph.output_specs()]
        return PlanSummary(
            kind=self.kind,
            tasks=self.count,
            flops=sum(task.flops for task in self.tasks),
            verify_flops=sum(task.verify_flops for task in self.tasks),
            bytes_in=sum(task.bytes_moved for task in self.tasks) - sum(outs),
            bytes_out=sum(outs),
            memory_bound_bytes=max(task.memory_bound_bytes for task in self.tasks),
            tile=self.tile,
        )
