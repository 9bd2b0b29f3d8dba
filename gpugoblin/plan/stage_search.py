"""The search for stages that fit: cut by estimates, measure what was cut, correct, cut again.

Owns: the loop, and what happens to a layer that no engine holds. Must not: know objectives
(`cutting.py`) or graphs of stages (`stage_graphs.py`).

Memory of a span is estimated from sums, so that all spans can be weighed at once; the chosen ones
are then built and bounded exactly, and their estimates corrected by what was found. Only stages
whose exact bound keeps the limits are ever returned.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import FLOATS
from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.graph.memory import bound
from gpugoblin.plan.blockwise import plan_blocks
from gpugoblin.plan.cutting import Pace, Span, Weights, cut_for_bytes, cut_for_pace
from gpugoblin.plan.figures import MAX_INPUTS
from gpugoblin.plan.single import SinglePlan
from gpugoblin.plan.spec import Limits, Plan, PlanSummary
from gpugoblin.plan.spine import Line, line_of
from gpugoblin.plan.stage_graphs import Port, StageGraphs, stage_graphs
from gpugoblin.plan.stage_plan import Activation, StagePlan, TrainingStage

__all__ = ["search"]

_ROUNDS: Final = 8
_REACH: Final = 12
"""How far a tiled stage may reach to both sides of the operator that does not fit."""

_TRIES: Final = 6
"""Tiled stages of several operators that are tried before the operator stands alone."""

_STAGE_BYTES: Final = 64 * 1024
"""What a stage more is worth: its tasks have to be handed out."""

_TILED_BYTES: Final = 1024
"""And an operator more in a tiled stage."""

_SLACK: Final = 1.02

_FAR: Final = 64
_KINDS: Final = 48
"""So many kinds of operators are measured before the search, where they may come near the limit:
the scratch of a gradient may be many times the result's size."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A span with its graphs, and its plans where it is cut into tiles."""

    graphs: StageGraphs
    peak_bytes: int
    inputs: int
    largest_bytes: int

    def fits(self, limits: Limits) -> bool:
        return (
            self.peak_bytes <= limits.memory_bytes
            and self.largest_bytes <= limits.slot_bytes
            and self.inputs <= MAX_INPUTS
        )


def search(
    program: Graph,
    parameters: tuple[int, ...],
    limits: Limits,
    loss: int | None,
    *,
    pace: Pace | None,
    most: int,
    names: Names,
) -> StagePlan:
    """As `gpugoblin.plan.stages.split_stages`; `pace` is None for the fewest bytes."""
    line = line_of(program, frozenset(parameters))
    found = _Search(line, parameters, limits, loss, pace, most, names)
    return found.finish(found.run())


class _Search:
    """One search, with what it has measured."""

    def __init__(
        self,
        line: Line,
        parameters: tuple[int, ...],
        limits: Limits,
        loss: int | None,
        pace: Pace | None,
        most: int,
        names: Names,
    ) -> None:
        self._line, self._parameters, self._limits = line, parameters, limits
        self._loss, self._pace, self._most, self._names = loss, pace, most, names
        self._specs = line.graph.specs()
        self._reached = _reached(line.graph, parameters)
        self._measured: dict[tuple[Span, frozenset[int] | None], _Measured] = {}
        self._tiles: set[Span] = set()
        self._tiled: dict[Span, float] = {}
        self._tries = 0
        copies = 1.0 if loss is None else 2.0
        self._weights = Weights(
            held=np.array(line.weight_bytes, np.float64) * copies,
            inner=np.array(line.inner_bytes, np.float64) + 1.0,
            scratch=np.zeros(len(line.spine)),
            crossing=np.array(line.crossing_bytes, np.float64),
            inputs=np.array(line.input_counts, np.float64),
            flops=np.array(line.flops, np.float64) + 1.0,
        )

    def run(self) -> list[Span]:
        """The spans, each of which fits or is tiled."""
        whole = (0, len(self._line.spine))
        if self._pace is None and self._may_fit_whole() and self._fits(whole):
            return [whole]
        self._measure_kinds()
        best: list[Span] | None = None
        seen: set[tuple[Span, ...]] = set()
        for _ in range(_ROUNDS):
            self._mark_oversized()
            spans = self._cut()
            if tuple(spans) in seen:
                break
            seen.add(tuple(spans))
            good = all([self._fits(span) or self._tile(span) for span in spans])
            if good and (best is None or self._cost(spans) < self._cost(best)):
                best = spans
            for span in spans:
                self._correct(span)
        if best is None:
            self._mark_oversized()
            best = [part for span in self._cut() for part in self._halves(span)]
        return best

    def _may_fit_whole(self) -> bool:
        """Quickly: inputs, outputs and gradients are there at once in any case."""
        program = self._line.graph
        given = sum(spec.nbytes for spec in (*program.inputs, *program.output_specs()))
        gradients = sum(program.inputs[number].nbytes for number in self._parameters)
        known = given + (gradients if self._loss is not None else 0)
        return known <= self._limits.memory_bytes and len(program.inputs) <= MAX_INPUTS

    def finish(self, spans: list[Span]) -> StagePlan:
        """The stages, made from the last to the first: each knows then which gradients come."""
        stages: list[TrainingStage] = []
        coming: set[int] = set()
        for number in range(len(spans) - 1, -1, -1):
            stage = self._stage(number, spans[number], frozenset(coming))
            coming |= {port.number for port in stage.backward_outputs if port.kind == "gradient"}
            stages.append(stage)
        stages.reverse()
        weights = {
            parameter: tuple(
                stage.number
                for stage in reversed(stages)
                if Port("weight_gradient", parameter) in stage.backward_outputs
            )
            for parameter in self._parameters
        }
        crossing = self._line.crossing_bytes
        return StagePlan(
            program=self._line.graph,
            parameters=self._parameters,
            loss=self._loss,
            stages=tuple(stages),
            activations=_activations(self._line.graph, stages),
            weight_gradients=weights,
            cut_bytes=tuple(int(crossing[start]) for start, _ in spans[1:]),
        )

    def _cut(self) -> list[Span]:
        limit = float(self._limits.memory_bytes)
        if self._pace is None:
            spans = cut_for_bytes(self._weights, limit, MAX_INPUTS, _STAGE_BYTES, self._tiled)
        else:
            spans = cut_for_pace(
                self._weights, limit, MAX_INPUTS, self._pace, self._most, self._tiled
            )
        if not spans:
            raise PlanError("plan_too_many_stages", stages=self._most)
        return spans

    def _cost(self, spans: list[Span]) -> float:
        """What the objective makes of spans that fit."""
        weights = self._weights
        if self._pace is None:
            return sum(float(weights.crossing[start]) + _STAGE_BYTES for start, _ in spans)
        return max(
            max(
                3 * float(weights.flops[start:stop].sum()) / self._pace.flops_per_s,
                2 * float(weights.crossing[start] + weights.crossing[stop])
                / self._pace.bytes_per_s,
            )
            for start, stop in spans
        )  # fmt: skip

    def _measure(self, span: Span, coming: frozenset[int] | None = None) -> _Measured:
        known = self._measured.get((span, coming))
        if known is None:
            graphs = stage_graphs(
                self._line,
                *span,
                weights=self._parameters,
                loss=self._loss,
                reached=self._reached,
                coming=coming,
            )
            each = [graphs.forward, *([graphs.backward] if graphs.backward else [])]
            known = self._measured[span, coming] = _Measured(
                graphs,
                peak_bytes=max(map(_bound, each)),
                inputs=max(max(len(one.inputs), len(one.outputs)) for one in each),
                largest_bytes=max(_largest(one) for one in each),
            )
        return known

    def _fits(self, span: Span) -> bool:
        return self._measure(span).fits(self._limits)

    def _correct(self, span: Span) -> None:
        """Moves the estimate of a span to what was measured, a little above."""
        start, stop = span
        if span in self._tiled:
            return
        weights = self._weights
        measured = self._measure(span)
        if stop - start == 1:
            self._settle(start, measured.peak_bytes, fits=measured.fits(self._limits))
            return
        base, inner, scratch = weights.parts(start, stop)
        needed = measured.peak_bytes * _SLACK - base - scratch
        weights.inner[start:stop] *= max(needed / inner, 0.05)
        if measured.inputs > MAX_INPUTS:
            counted = max(1.0, float(weights.inputs[start:stop].sum()))
            weights.inputs[start:stop] *= measured.inputs / counted

    def _settle(self, place: int, peak_bytes: int, *, fits: bool) -> None:
        """Makes the estimate of one operator what was measured, and lets it fit if it does."""
        base, inner, _ = self._weights.parts(place, place + 1)
        known = peak_bytes * _SLACK
        if fits:
            known = min(known, float(self._limits.memory_bytes))
        self._weights.scratch[place] = known - base - inner

    def _mark_oversized(self) -> None:
        """Finds operators that no engine holds; what is around them may be tiled with them."""
        for place in range(len(self._line.spine)):
            span = (place, place + 1)
            rough = sum(self._weights.parts(*span))
            node = self._line.graph.nodes[self._line.spine[place]]
            largest = max(spec.nbytes for spec in node.outputs)
            if rough <= self._limits.memory_bytes and largest <= self._limits.slot_bytes:
                continue
            measured = self._measure(span)
            self._settle(place, measured.peak_bytes, fits=measured.fits(self._limits))
            if span in self._tiled or measured.fits(self._limits):
                continue
            last = len(self._line.spine)
            for start in range(max(0, place - _REACH), place + 1):
                for stop in range(place + 1, min(last, place + 1 + _REACH) + 1):
                    self._tiled[start, stop] = float(_TILED_BYTES * (stop - start))

    def _measure_kinds(self) -> None:
        """Measures the largest operators by themselves, once for all that are alike."""
        limit = self._limits.memory_bytes / _FAR
        sizes = [sum(self._weights.parts(p, p + 1)) for p in range(len(self._line.spine))]
        known: dict[object, int] = {}
        for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
            if sizes[place] < limit:
                break
            kind = self._kind(place)
            if kind not in known:
                if len(known) >= _KINDS:
                    continue
                known[kind] = self._measure((place, place + 1)).peak_bytes
            self._settle(place, known[kind], fits=known[kind] <= self._limits.memory_bytes)

    def _kind(self, place: int) -> object:
        """Equal for operators of which one needs as much as the other."""
        line, node = self._line, self._line.graph.nodes[self._line.spine[place]]
        specs = self._specs
        operands = tuple(
            (specs[value], value in self._reached, value in self._parameters)
            for value in node.inputs
        )
        return node.operator, node.attributes, operands, len(line.takes[place])

    def _tile(self, span: Span) -> bool:
        """Whether a span that no engine holds can be cut into tiles."""
        if span not in self._tiled:
            return False
        if span in self._tiles:
            return True
        graphs = self._measure(span).graphs
        try:
            for graph in (graphs.backward, graphs.forward):
                if graph is not None:
                    _tile_plan(graph, self._limits)
        except PlanError as error:
            self._refuse(span, error)
            return False
        self._tiles.add(span)
        return True

    def _refuse(self, span: Span, error: PlanError) -> None:
        """Strikes a tiled span; a single operator is the end."""
        if span[1] - span[0] == 1:
            raise self._misfit(span[0], error)
        self._tries += 1
        if self._tries >= _TRIES:
            for one in [one for one in self._tiled if one[1] - one[0] > 1]:
                del self._tiled[one]
        else:
            del self._tiled[span]

    def _misfit(self, place: int, error: PlanError) -> PlanError:
        number = self._line.spine[place]
        node = self._line.graph.nodes[number]
        return PlanError(
            "plan_layer_does_not_fit",
            layer=self._names.lines.get(number, f"node {number}"),
            operator=node.operator,
            output=str(node.outputs[0]),
            needed_bytes=self._measure((place, place + 1)).peak_bytes,
            limit_bytes=min(self._limits.memory_bytes, self._limits.slot_bytes),
            reason=str(error.fields.get("reason", error.code)),
        )

    def _halves(self, span: Span) -> list[Span]:
        """The parts of a span that fit, found by cutting where the least crosses."""
        if self._fits(span) or self._tile(span):
            return [span]
        start, stop = span
        if stop - start == 1:
            self._tiled[span] = 0.0
            self._tile(span)
            return [span]
        places = range(start + 1, stop)
        middle = min(places, key=lambda p: (self._weights.crossing[p], abs(2 * p - start - stop)))
        return [*self._halves((start, middle)), *self._halves((middle, stop))]

    def _stage(self, number: int, span: Span, coming: frozenset[int]) -> TrainingStage:
        measured = self._measure(span, coming)
        graphs = measured.graphs
        forward: Plan = SinglePlan(graphs.forward)
        backward: Plan | None = SinglePlan(graphs.backward) if graphs.backward else None
        if not measured.fits(self._limits):
            forward = _tile_plan(graphs.forward, self._limits)
            backward = _tile_plan(graphs.backward, self._limits) if graphs.backward else None
        plans = [forward, *([backward] if backward else [])]
        summaries = [
            _summary(plan.graph) if isinstance(plan, SinglePlan) else plan.summary()
            for plan in plans
        ]
        numbers = set(self._line.spine[slice(*span)]).union(*self._line.takes[slice(*span)])
        return TrainingStage(
            number=number,
            nodes=tuple(sorted(numbers)),
            weights=tuple(
                port.number
                for port in graphs.inputs
                if port.kind == "input" and port.number in self._parameters
            ),
            forward=graphs.forward,
            inputs=graphs.inputs,
            outputs=graphs.outputs,
            forward_plan=forward,
            backward=graphs.backward,
            backward_inputs=graphs.backward_inputs,
            backward_outputs=graphs.backward_outputs,
            backward_plan=backward,
            forward_needed=backward is None
            or any(port.kind == "activation" for port in graphs.outputs),
            tiled=not measured.fits(self._limits),
            peak_bytes=max(one.memory_bound_bytes for one in summaries),
            forward_flops=summaries[0].flops,
            backward_flops=summaries[1].flops if backward else 0,
        )


@lru_cache(maxsize=256)
def _bound(graph: Graph) -> int:
    return bound(graph)


@lru_cache(maxsize=64)
def _summary(graph: Graph) -> PlanSummary:
    return SinglePlan(graph).summary()


@lru_cache(maxsize=16)
def _tile_plan(graph: Graph, limits: Limits) -> Plan:
    """The tiles of a stage's graph, made once for the search and the result. Raises PlanError."""
    return plan_blocks(graph, limits)


def _largest(graph: Graph) -> int:
    return max((spec.nbytes for spec in (*graph.inputs, *graph.output_specs())), default=0)


def _reached(program: Graph, parameters: Collection[int]) -> frozenset[int]:
    """The floats that depend on parameters through floats."""
    reached = set(parameters)
    for first, node in program.numbered_nodes():
        if any(value in reached for value in node.inputs):
            reached |= {
                first + place for place, spec in enumerate(node.outputs) if spec.dtype in FLOATS
            }
    return frozenset(reached)


def _activations(program: Graph, stages: list[TrainingStage]) -> tuple[Activation, ...]:
    specs = program.specs()
    makers = {
        port.number: stage.number
        for stage in stages
        for port in stage.outputs
        if port.kind == "activation"
    }
    given = {
        port.number
        for stage in stages
        for port in stage.backward_outputs
        if port.kind == "gradient"
    }
    return tuple(
        Activation(
            value,
            specs[value],
            maker,
            tuple(s.number for s in stages if Port("activation", value) in s.inputs),
            value in given,
        )
        for value, maker in sorted(makers.items())
    )
