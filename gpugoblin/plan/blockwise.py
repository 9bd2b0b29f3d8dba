"""Whole graphs in blocks, by the operators' split rules.

Owns: the cut of a graph that is not one product. Pure.
"""

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
    Plan,
    PlannedTask,
    PlanSummary,
    Region,
)

__all__ = ["plan_blocks"]


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The whole graph as one task."""

    graph: Graph
    memory_bound_bytes: int

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
        if index != 0:
            raise PlanError("plan_task_unknown", index=index, count=1)
        whole = cost(self.graph)
        return PlannedTask(
            index=0,
            graph=self.graph,
            inputs=tuple(
                ArrayRegion(number, _all_of(spec)) for number, spec in enumerate(self.inputs)
            ),
            outputs=tuple(
                OutputPlace(number, _all_of(spec)) for number, spec in enumerate(self.outputs)
            ),
            verify="recompute",
            verify_flops=whole.flops,
            flops=whole.flops,
            bytes_moved=self._bytes_in + self._bytes_out,
            memory_bound_bytes=self.memory_bound_bytes,
            affinity=0,
            depends_on=(),
        )

    def consumers(self, index: int) -> tuple[int, ...]:
        return ()

    @property
    def _bytes_in(self) -> int:
        return sum(spec.nbytes for spec in self.inputs)

    @property
    def _bytes_out(self) -> int:
        return sum(spec.nbytes for spec in self.outputs)

    def summary(self) -> PlanSummary:
        task = self.task(0)
        return PlanSummary(
            kind="whole",
            tasks=1,
            flops=task.flops,
            verify_flops=task.verify_flops,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            memory_bound_bytes=self.memory_bound_bytes,
            tile=self.outputs[0].shape if self.outputs else (),
        )


def _all_of(spec: TensorSpec) -> Region:
    return Region((0,) * spec.rank, spec.shape)


def plan_blocks(graph: Graph, limits: Limits, *, block_axis: int | None = None) -> Plan:
    """The plan of a graph that is not one product.

    Raises:
        PlanError: `plan_does_not_fit` when no cut fits.
    """
    needed = bound(graph)
    if needed > limits.memory_bytes:
        raise PlanError(
            "plan_does_not_fit",
            operator=graph.nodes[-1].operator if graph.nodes else "the graph",
            output=graph.output_specs()[0] if graph.outputs else "nothing",
            needed_bytes=needed,
            limit_bytes=limits.memory_bytes,
        )
    return WholePlan(graph, needed)
