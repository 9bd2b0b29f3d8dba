"""A training in stages: the templates of its round and of its evaluation, under the memory of an
engine.

Owns: what is carried, how a micro-batch goes through the stages and back, and an evaluation through
stages of its own. Must not: choose the cuts of the model (`gpugoblin.plan.stages` does), or touch a
number. The end of a round is made by `stage_endings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.building import reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.optim.step import Optimizer
from gpugoblin.plan.microbatches import CARRIED, Slot
from gpugoblin.plan.order import Order
from gpugoblin.plan.round_items import Evaluation, Item, Source, Stored
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage_graphs import Port
from gpugoblin.plan.stages import StagePlan, split_stages
from server_stub.node.training.stage_endings import (
    Ending,
    RoundItems,
    Written,
    grouped,
    write_end,
)
from server_stub.node.training.stepping import mean_of

__all__ = ["Held", "Program", "Staging", "staged_plan"]

_HELD = 1 << 21
"""Affinities of the stages of an evaluation begin here."""


@dataclass(frozen=True, slots=True)
class Program:
    """A loss, and what its inputs are."""

    loss: Graph
    slots: tuple[Slot, ...]

    def trained(self) -> list[int]:
        """The inputs that are parameters."""
        return [place for place, slot in enumerate(self.slots) if slot.kind == "parameter"]


@dataclass(frozen=True, slots=True)
class Held:
    """An evaluation in `parts` of `rows` examples; the rest as `gpugoblin.plan.round_items`."""

    program: Program
    every: int
    parts: int
    rows: int
    data: tuple[TensorSpec, ...]
    keyed: bool


@dataclass(frozen=True, slots=True)
class Staging:
    """What a training in stages is made from.

    Args:
        program: the loss of a micro-batch. names: of the trained tensors, by offset.
        updates: for each further output of the program the input that it becomes.
    """

    program: Program
    updates: tuple[int, ...]
    names: Mapping[int, str]
    optimizer: Optimizer
    clip_norm: float | None
    micros: int
    rows: int
    rounds: int
    first: int
    order: Order
    data: tuple[TensorSpec, ...]
    fixed: tuple[TensorSpec, ...]
    held: Held | None = None


Place = tuple[str, int]
"""A carried tensor by its kind and its offset there."""


def staged_plan(staging: Staging, limits: Limits) -> RoundsPlan:
    """The plan.

    Raises:
        PlanError: `plan_layer_does_not_fit`, `training_malformed`.
        GraphError: as `split_stages`.
    """
    cut = _cut(staging, staging.program, limits, 0)
    own = _own(staging.program)
    kinds: list[str] = [kind for kind in CARRIED if any(place[0] == kind for place in own)]
    tensors = [spec for place, spec in own.items() if place[0] == "parameter"]
    stored = [Stored(kinds.index(place[0]), place[1], spec) for place, spec in own.items()]
    state = _state(staging.optimizer, stored[: len(tensors)], len(kinds))
    places = {place: number for number, place in enumerate(own)}
    made = RoundItems()
    passed = _passes(staging, cut, made, places)
    offsets = [offset for kind, offset in own if kind == "parameter"]
    ending = Ending(
        staging.optimizer, staging.clip_norm, staging.micros, tuple(tensors),
        tuple(staging.names.get(offset, "a tensor") for offset in offsets),
        tuple(tuple(passed.gradients.get(offset, ())) for offset in offsets),
        tuple(passed.losses), staging.program.loss.output_specs()[0],
        tuple(
            Written(number, own[place], tuple(passed.written.get(place, ())))
            for place, number in places.items()
            if place[0] != "parameter"
        ),
        len(stored),
    )  # fmt: skip
    write_end(ending, made, limits)
    held = _evaluation(staging, staging.held, limits, places) if staging.held else None
    everything = (*stored, *state)
    flat, deals = _dealt(everything, limits)
    return RoundsPlan(
        items=tuple(made.items), deals=deals, flat=flat, stored=everything,
        rounds=staging.rounds, micros=staging.micros, rows=staging.rows, first=staging.first,
        order=staging.order, data=staging.data, fixed=staging.fixed, tensors=len(tensors),
        stages=len(cut.stages),
        parts=(
            *((kind, 0) for kind, _ in own), *(("state", one.array - len(kinds)) for one in state)
        ),
        evaluation=held,
    )  # fmt: skip


def _cut(staging: Staging, program: Program, limits: Limits, loss: int | None) -> StagePlan:
    """The stages of a program. Raises PlanError where a layer is to be cut into tiles."""
    names = Names(inputs=tuple(
        staging.names.get(slot.offset, "") if slot.kind == "parameter" else slot.kind
        for slot in program.slots
    ))  # fmt: skip
    trained = program.trained()
    cut = split_stages(program.loss, parameters=trained, limits=limits, loss=loss, names=names)
    if cut.tiled:
        reason = "a layer of it is larger than any engine's memory"
        raise PlanError("training_malformed", reason=reason)
    return cut


# -- what is carried ----------------------------------------------------------------------------


def _own(program: Program) -> dict[Place, TensorSpec]:
    """The tensors of the model, in the order in which they are carried."""
    found: dict[Place, TensorSpec] = {}
    for slot, spec in zip(program.slots, program.loss.inputs, strict=True):
        if slot.kind in CARRIED:
            found.setdefault((slot.kind, slot.offset), spec)
    return dict(sorted(found.items(), key=lambda one: (_KINDS[one[0][0]], one[0][1])))


_KINDS = {str(kind): number for number, kind in enumerate(CARRIED)}


def _state(optimizer: Optimizer, tensors: Sequence[Stored], arrays: int) -> tuple[Stored, ...]:
    """The state: by slot and tensor where it is kept flat, as an unstaged training keeps it, else
    tensor by tensor, each in an array of its own. `arrays`: those of the model's tensors."""
    found: list[Stored] = []
    if optimizer.elementwise:
        for slot in range(len(optimizer.slots(tensors[0].spec))):
            found += [Stored(arrays + slot, one.offset, one.spec) for one in tensors]
        return tuple(found)
    for one in tensors:
        for slot_ in optimizer.slots(one.spec):
            found.append(Stored(arrays + len(found), 0, slot_.spec))
    return tuple(found)


def _dealt(
    stored: Sequence[Stored], limits: Limits
) -> tuple[tuple[TensorSpec, ...], tuple[tuple[tuple[int, ...], Graph], ...]]:
    """The flat arrays, and the tasks that cut tensors out of them."""
    sizes: dict[int, TensorSpec] = {}
    for one in stored:
        known = sizes[one.array].count if one.array in sizes else 0
        end = max(known, one.offset + one.spec.count)
        sizes[one.array] = TensorSpec(one.spec.dtype, (end,))
    flat = tuple(sizes[array] for array in sorted(sizes))
    groups = grouped([one.spec.nbytes for one in stored], limits.memory_bytes // 4, 64)
    deals = []
    for group in groups:
        builder = GraphBuilder()
        values = []
        for place in group:
            spec = stored[place].spec
            values.append(reshaped(builder, builder.input(_flat(spec)), spec.shape))
        deals.append((tuple(group), builder.build(values)))
    return flat, tuple(deals)


def _flat(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.dtype, (spec.count,))


# -- forward and back ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Passed:
    """What the micro-batches gave, in the order in which it is added: gradients by the offset of
    their tensor, losses, and what they wrote."""

    gradients: dict[int, list[Source]]
    losses: list[Source]
    written: dict[Place, list[Source]]


def _passes(
    staging: Staging, cut: StagePlan, made: RoundItems, places: Mapping[Place, int]
) -> _Passed:
    """Every micro-batch through the stages and back."""
    found = _Passed({}, [], {})
    program = staging.program
    graphs = {}
    for stage in cut.stages:
        graphs[stage.number, True] = _with_flat_fixed(program, stage.forward, stage.inputs)
        if stage.backward is not None:
            graphs[stage.number, False] = _with_flat_fixed(
                program, stage.backward, stage.backward_inputs
            )
    for micro in range(staging.micros):
        known: dict[Port, Source] = {}
        for stage in cut.stages:
            if stage.forward_needed:
                at = made.add(_pass(program, graphs[stage.number, True], stage.inputs, known,
                                    micro, 1 + stage.number, places))  # fmt: skip
                known |= {port: Source("item", at, k) for k, port in enumerate(stage.outputs)}
        shares: dict[tuple[int, int], Source] = {}
        for stage in reversed(cut.stages):
            if stage.backward is None:
                continue
            at = made.add(_pass(program, graphs[stage.number, False], stage.backward_inputs,
                                known, micro, 1 + stage.number, places))  # fmt: skip
            for slot, port in enumerate(stage.backward_outputs):
                source = Source("item", at, slot)
                if port.kind == "weight_gradient":
                    shares[port.number, stage.number] = source
                else:
                    known[port] = source
        found.losses.append(known[Port("output", 0)])
        for output, number in enumerate(staging.updates):
            slot_ = program.slots[number]
            given = found.written.setdefault((slot_.kind, slot_.offset), [])
            # Where several outputs become one tensor, the last one counts.
            given[micro:] = [known[Port("output", 1 + output)]]
        for place, stages in cut.weight_gradients.items():
            given = found.gradients.setdefault(program.slots[place].offset, [])
            given += [shares[place, one] for one in stages]
    return found


def _evaluation(
    staging: Staging, held: Held, limits: Limits, places: Mapping[Place, int]
) -> Evaluation:
    """Every part of an evaluation's data through stages, and the mean of the losses."""
    program = held.program
    cut = _cut(staging, program, limits, None)
    made = RoundItems()
    graphs = [_with_flat_fixed(program, stage.forward, stage.inputs) for stage in cut.stages]
    losses = []
    for part in range(held.parts):
        known: dict[Port, Source] = {}
        for stage, graph in zip(cut.stages, graphs, strict=True):
            at = made.add(_pass(program, graph, stage.inputs, known, part,
                                _HELD + stage.number, places))  # fmt: skip
            known |= {port: Source("item", at, k) for k, port in enumerate(stage.outputs)}
        losses.append(known[Port("output", 0)])
    score = mean_of(held.parts, program.loss.output_specs()[0].shape)
    made.add(Item(score, tuple(losses), _HELD - 1, series=(2,)))
    return Evaluation(held.every, tuple(made.items), held.parts, held.rows, held.data, held.keyed)


def _with_flat_fixed(program: Program, graph: Graph, ports: Sequence[Port]) -> Graph:
    """The graph with its fixed inputs flat, as their arrays are."""
    fixed = [port.kind == "input" and program.slots[port.number].kind == "fixed" for port in ports]
    if not any(fixed):
        return graph
    builder = GraphBuilder()
    values = []
    for spec, flat in zip(graph.inputs, fixed, strict=True):
        given = builder.input(_flat(spec) if flat else spec)
        values.append(reshaped(builder, given, spec.shape))
    return builder.build(replay(graph, builder, values))


def _pass(
    program: Program, graph: Graph, ports: Sequence[Port], known: Mapping[Port, Source], micro: int,
    affinity: int, places: Mapping[Place, int],
) -> Item:  # fmt: skip
    sources = []
    for port in ports:
        if port.kind != "input":
            sources.append(known[port])
            continue
        slot, spec = program.slots[port.number], program.loss.inputs[port.number]
        if slot.kind in CARRIED:
            sources.append(Source("carried", places[slot.kind, slot.offset]))
        elif slot.kind == "data":
            sources.append(Source("data", slot.array, micro))
        elif slot.kind == "key":
            sources.append(Source("key", 0, micro))
        else:
            sources.append(Source("fixed", slot.array, slot.offset, spec.count))
    return Item(graph, tuple(sources), affinity)
