"""A whole graph as one task. Owns: the plan of what fits an engine as it is."""

from __future__ import annotations

from dataclasses import dataclass

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.spec import (
    ArrayRegion,
    Limits,
    OutputPlace,
    PlannedTask,
    PlanSummary,
    Region,
)

__all__ = ["SinglePlan", "fits", "whole"]


def whole(spec: TensorSpec) -> Region:
    """The region of a whole array."""
    return Region((0,) * spec.rank, spec.shape)


def fits(graph: Graph, limits: Limits) -> bool:
    """Whether one engine can take the graph as it is."""
    tensors = (*graph.inputs, *graph.output_specs())
    largest = max((spec.nbytes for spec in tensors), default=0)
    return largest <= limits.slot_bytes and bound(graph) <= limits.memory_bytes


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """One task, verified by recomputing."""

    graph: Graph

    @property
    def count(self) -> int:
        return 1

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.output_specs()

    def task(self, index: int) -> PlannedTask:
        """The task. Raises PlanError `plan_task_unknown`."""
        if index != 0:
            raise PlanError("plan_task_unknown", index=index, count=1)
        spent = cost(self.graph)
        tensors = (*self.graph.inputs, *self.outputs)
        return PlannedTask(
            index=0,
            graph=self.graph,
            inputs=tuple(
                ArrayRegion(number, whole(spec)) for number, spec in enumerate(self.graph.inputs)
            ),
            outputs=tuple(
                OutputPlace(number, whole(spec)) for number, spec in enumerate(self.outputs)
            ),
            verify="recompute",
            verify_flops=spent.flops,
            flops=spent.flops,
            bytes_moved=sum(spec.nbytes for spec in tensors),
            memory_bound_bytes=bound(self.graph),
            affinity=0,
            depends_on=(),
        )

    def consumers(self, index: int) -> tuple[int, ...]:
        self.task(index)
        return ()

    def summary(self) -> PlanSummary:
        task = self.task(0)
        return PlanSummary(
            kind="single",
            tasks=1,
            flops=task.flops,
            verify_flops=task.verify_flops,
            bytes_in=sum(spec.nbytes for spec in self.inputs),
            bytes_out=sum(spec.nbytes for spec in self.outputs),
            memory_bound_bytes=task.memory_bound_bytes,
            tile=tuple(max(1, extent) for extent in self.outputs[0].shape),
        )
