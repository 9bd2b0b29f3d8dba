"""A plan made of stages. Owns: the numbering over all of them, and the summary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import gcd

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.figures import Totals
from gpugoblin.plan.readers import readers
from gpugoblin.plan.spec import PlannedTask, PlanSummary
from gpugoblin.plan.stage import Stage

__all__ = ["BlockPlan"]


class BlockPlan:
    """The tasks of `stages`, one stage after the other.

    Args:
        graph: the whole graph.
        stages: each reads only earlier ones, and is numbered from where the one before it ends.
    """

    def __init__(self, graph: Graph, stages: Sequence[tuple[Stage, Totals]]) -> None:
        self.graph = graph
        self.stages = tuple(stage for stage, _ in stages)
        self._totals = tuple(totals for _, totals in stages)
        self._firsts = [stage.first for stage in self.stages]

    @property
    def count(self) -> int:
        return self.stages[-1].first + self.stages[-1].count

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.graph.output_specs()

    def task(self, index: int) -> PlannedTask:
        """Task `index`. Raises PlanError `plan_task_unknown`."""
        stage = self.stages[self._stage(index)]
        return stage.task(index - stage.first)

    def consumers(self, index: int) -> tuple[int, ...]:
        number = self._stage(index)
        maker = self.stages[number]
        found: set[int] = set()
        for stage in self.stages[number + 1 :]:
            found |= readers(stage, maker, index - maker.first)
        return tuple(sorted(found))

    def summary(self) -> PlanSummary:
        return PlanSummary(
            kind="blocks",
            tasks=self.count,
            flops=sum(one.flops for one in self._totals),
            verify_flops=sum(one.verify_flops for one in self._totals),
            bytes_in=sum(one.bytes_in for one in self._totals),
            bytes_out=sum(one.bytes_out for one in self._totals),
            memory_bound_bytes=max(one.bound_bytes for one in self._totals),
            tile=self._tile(),
        )

    def _stage(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise PlanError("plan_task_unknown", index=index, count=self.count)
        return bisect_right(self._firsts, index) - 1

    def _tile(self) -> tuple[int, ...]:
        """Extents of the chunks in which results can be stored without two tasks writing into one:
        aligned to the last axes of all outputs."""
        rank = max(spec.rank for spec in self.outputs)
        extents = [1] * rank
        cuts = [0] * rank
        for stage in self.stages:
            for want in stage.wants:
                if all(place is None for place in want.places):
                    continue
                spec = stage.flow.specs[want.value]
                for axis, (extent, number) in enumerate(zip(spec.shape, want.loops, strict=True)):
                    at = rank - spec.rank + axis
                    extents[at] = max(extents[at], extent)
                    if number is not None and stage.loops[number].count > 1:
                        loop = stage.loops[number]
                        inner = gcd(loop.step, loop.row) if loop.row < loop.extent else loop.step
                        cuts[at] = gcd(cuts[at], inner)
        return tuple(cut or extent for cut, extent in zip(cuts, extents, strict=True))
