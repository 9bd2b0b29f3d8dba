"""A training in stages: the template of its round, under the memory of an engine.

Owns: which tensors are stepped together, the graphs of a round's end, and the items of a round.
Must not: choose the cuts of the model (`gpugoblin.plan.stages` does), or touch a number.

Sums add in the order of micro-batches and stages, in groups of a fixed size, so the result does not
depend on who was first. One item looks at all gradients, for the norm and for what is not finite,
and tells every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.building import call, number, reduced, reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.terms import formula, where
from gpugoblin.plan.microbatches import Slot
from gpugoblin.plan.order import Order
from gpugoblin.plan.round_items import STEP_AFFINITY, Item, Source, Stored
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage_graphs import Port
from gpugoblin.plan.stages import StagePlan, split_stages

__all__ = ["Staging", "staged_plan"]

ARITY: Final = 4
SHARE: Final = 16
"""Tensors that are stepped together take no more than this part of an engine's memory."""
_SUMS: Final = 1 << 20
"""Affinities of what ends a round; those of stages are their numbers."""


@dataclass(frozen=True, slots=True)
class Staging:
    """What a training in stages is made from.

    Args:
        loss: the graph of a micro-batch's loss. names: of the trained tensors, by offset.
    """

    loss: Graph
    slots: tuple[Slot, ...]
    names: dict[int, str]
    optimizer: Optimizer
    clip_norm: float | None
    micros: int
    rows: int
    rounds: int
    first: int
    order: Order
    data: tuple[TensorSpec, ...]
    fixed: tuple[TensorSpec, ...]


@dataclass(slots=True)
class _Round:
    """The items of a round as they are made."""

    items: list[Item] = field(default_factory=list)

    def add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1


def staged_plan(staging: Staging, limits: Limits) -> RoundsPlan:
    """The plan.

    Raises:
        PlanError: `plan_layer_does_not_fit`, `training_malformed`.
        GraphError: as `split_stages`.
    """
    if any(slot.kind in ("buffer", "count") for slot in staging.slots):
        reason = "a model with running statistics is not cut into stages, and no engine can hold it"
        raise PlanError("training_malformed", reason=reason)
    trained = [place for place, slot in enumerate(staging.slots) if slot.kind == "parameter"]
    names = Names(inputs=tuple(
        staging.names.get(slot.offset, "") if slot.kind == "parameter" else slot.kind
        for slot in staging.slots
    ))  # fmt: skip
    cut = split_stages(staging.loss, parameters=trained, limits=limits, loss=0, names=names)
    if cut.tiled:
        raise PlanError(
            "training_malformed", reason="a layer of it is larger than any engine's memory"
        )
    tensors = {
        staging.slots[place].offset: staging.loss.inputs[place] for place in reversed(trained)
    }
    offsets = sorted(tensors)
    stored = _stored(staging, [(offset, tensors[offset]) for offset in offsets])
    made = _Round()
    gradients, losses = _passes(staging, cut, made, offsets)
    specs = [tensors[offset] for offset in offsets]
    _endings(staging, made, specs, [gradients[offset] for offset in offsets], losses, limits)
    flat, deals = _dealt(staging, stored, limits)
    return RoundsPlan(
        items=tuple(made.items), deals=deals, flat=flat, stored=tuple(stored),
        rounds=staging.rounds, micros=staging.micros, rows=staging.rows, first=staging.first,
        order=staging.order, data=staging.data, fixed=staging.fixed, tensors=len(offsets),
        stages=len(cut.stages),
        parts=tuple(
            ("parameter", 0) if place < len(offsets) else ("state", one.array - 1)
            for place, one in enumerate(stored)
        ),
    )  # fmt: skip


# -- what is carried ----------------------------------------------------------------------------


def _stored(staging: Staging, tensors: Sequence[tuple[int, TensorSpec]]) -> list[Stored]:
    """Parameters, then the state: by slot and tensor where it is kept flat, as an unstaged training
    keeps it, else tensor by tensor, each in an array of its own."""
    found = [Stored(0, offset, spec) for offset, spec in tensors]
    if staging.optimizer.elementwise:
        slots = len(staging.optimizer.slots(tensors[0][1]))
        for slot in range(slots):
            found += [Stored(1 + slot, offset, spec) for offset, spec in tensors]
        return found
    for _, spec in tensors:
        for one in staging.optimizer.slots(spec):
            found.append(Stored(len(found) - len(tensors) + 1, 0, one.spec))
    return found


def _dealt(
    staging: Staging, stored: Sequence[Stored], limits: Limits
) -> tuple[tuple[TensorSpec, ...], tuple[tuple[tuple[int, ...], Graph], ...]]:
    """The flat arrays, and the tasks that cut tensors out of them."""
    sizes: dict[int, int] = {}
    for one in stored:
        sizes[one.array] = max(sizes.get(one.array, 0), one.offset + one.spec.count)
    flat = tuple(TensorSpec("float32", (sizes[array],)) for array in sorted(sizes))
    groups = _grouped([one.spec.nbytes for one in stored], limits.memory_bytes // 4, 64)
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


def _grouped(sizes: Sequence[int], most_bytes: int, most: int) -> list[list[int]]:
    """Neighbors together, as many as fit."""
    groups: list[list[int]] = []
    room = 0
    for place, nbytes in enumerate(sizes):
        if not groups or nbytes > room or len(groups[-1]) >= most:
            groups.append([])
            room = most_bytes
        groups[-1].append(place)
        room -= nbytes
    return groups


# -- forward and back ---------------------------------------------------------------------------


def _passes(
    staging: Staging, cut: StagePlan, made: _Round, offsets: Sequence[int]
) -> tuple[dict[int, list[Source]], list[Source]]:
    """Every micro-batch through the stages and back: the gradients of each tensor, and the losses,
    in the order in which they are added."""
    gradients: dict[int, list[Source]] = {offset: [] for offset in offsets}
    losses: list[Source] = []
    graphs = {}
    for stage in cut.stages:
        graphs[stage.number, True] = _with_flat_fixed(staging, stage.forward, stage.inputs)
        if stage.backward is not None:
            graphs[stage.number, False] = _with_flat_fixed(
                staging, stage.backward, stage.backward_inputs
            )
    for micro in range(staging.micros):
        known: dict[Port, Source] = {}
        for stage in cut.stages:
            if stage.forward_needed:
                item = _pass(staging, graphs[stage.number, True], stage.inputs, known, micro,
                             1 + stage.number, offsets)  # fmt: skip
                at = made.add(item)
                known |= {port: Source("item", at, k) for k, port in enumerate(stage.outputs)}
        shares: dict[tuple[int, int], Source] = {}
        for stage in reversed(cut.stages):
            if stage.backward is None:
                continue
            item = _pass(staging, graphs[stage.number, False], stage.backward_inputs, known, micro,
                         1 + stage.number, offsets)  # fmt: skip
            at = made.add(item)
            for slot, port in enumerate(stage.backward_outputs):
                source = Source("item", at, slot)
                if port.kind == "weight_gradient":
                    shares[port.number, stage.number] = source
                else:
                    known[port] = source
        losses.append(known[Port("output", 0)])
        for place, stages in cut.weight_gradients.items():
            gradients[staging.slots[place].offset] += [shares[place, one] for one in stages]
    return gradients, losses


def _with_flat_fixed(staging: Staging, graph: Graph, ports: Sequence[Port]) -> Graph:
    """The graph with its fixed inputs flat, as their arrays are."""
    fixed = [port.kind == "input" and staging.slots[port.number].kind == "fixed" for port in ports]
    if not any(fixed):
        return graph
    builder = GraphBuilder()
    values = []
    for spec, flat in zip(graph.inputs, fixed, strict=True):
        given = builder.input(_flat(spec) if flat else spec)
        values.append(reshaped(builder, given, spec.shape))
    return builder.build(replay(graph, builder, values))


def _pass(
    staging: Staging, graph: Graph, ports: Sequence[Port], known: dict[Port, Source], micro: int,
    affinity: int, offsets: Sequence[int],
) -> Item:  # fmt: skip
    sources = []
    for port in ports:
        if port.kind != "input":
            sources.append(known[port])
            continue
        slot, spec = staging.slots[port.number], staging.loss.inputs[port.number]
        if slot.kind == "parameter":
            sources.append(Source("carried", offsets.index(slot.offset)))
        elif slot.kind == "data":
            sources.append(Source("data", slot.array, micro))
        elif slot.kind == "key":
            sources.append(Source("key", 0, micro))
        else:
            sources.append(Source("fixed", slot.array, slot.offset, spec.count))
    return Item(graph, tuple(sources), affinity)


# -- the end of a round -------------------------------------------------------------------------


def _endings(
    staging: Staging, made: _Round, specs: Sequence[TensorSpec],
    gradients: Sequence[Sequence[Source]], losses: Sequence[Source], limits: Limits,
) -> None:  # fmt: skip
    """Sums, means with their squares, the verdict, and the steps."""
    for place, givers in enumerate(gradients):
        if not givers:
            name = sorted(staging.names.items())[place][1]
            raise PlanError("training_malformed", reason=f"the loss does not depend on {name}")
    groups = []
    for group in _grouped([spec.nbytes for spec in specs], limits.memory_bytes // SHARE, 32):
        # Tensors of one group have equally many givers: tied ones have more.
        start = 0
        for end in range(1, len(group) + 1):
            if end == len(group) or len(gradients[group[end]]) != len(gradients[group[start]]):
                groups.append(group[start:end])
                start = end
    means: list[tuple[list[int], int]] = []
    for group in groups:
        own = [specs[place] for place in group]
        left = [list(gradients[place]) for place in group]
        while len(left[0]) > ARITY:
            left = _summed(made, own, left)
        graph = _mean_graph(own, len(left[0]), staging.micros)
        sources = tuple(source for givers in left for source in givers)
        means.append((group, made.add(Item(graph, sources, _SUMS))))
    while len(losses) > ARITY * ARITY:
        losses = _summed(made, [staging.loss.output_specs()[0]], [list(losses)])[0]
    verdict = _verdict(staging, means, len(losses))
    squares = [Source("item", at, len(group)) for group, at in means]
    judge = made.add(Item(verdict, (*losses, *squares), _SUMS + 1, series=(0, 1, None)))
    _steps(staging, made, specs, means, judge)


def _summed(
    made: _Round, specs: Sequence[TensorSpec], givers: Sequence[list[Source]]
) -> list[list[Source]]:
    """One level of sums, `ARITY` at a time."""
    count = len(givers[0])
    result: list[list[Source]] = [[] for _ in givers]
    for first in range(0, count, ARITY):
        parts = [one[first : first + ARITY] for one in givers]
        if len(parts[0]) == 1:
            for place, part in enumerate(parts):
                result[place].append(part[0])
            continue
        builder = GraphBuilder()
        totals = []
        for spec in specs:
            values = [builder.input(spec) for _ in parts[0]]
            totals.append(_added(builder, values))
        item = Item(builder.build(totals), tuple(s for part in parts for s in part), _SUMS)
        at = made.add(item)
        for place in range(len(specs)):
            result[place].append(Source("item", at, place))
    return result


def _added(builder: GraphBuilder, values: Sequence[int]) -> int:
    total = values[0]
    for value in values[1:]:
        total = call(builder, "add", total, value)
    return total


def _mean_graph(specs: Sequence[TensorSpec], givers: int, micros: int) -> Graph:
    """The mean gradient of each tensor, and their sums of squares as one vector."""
    builder = GraphBuilder()
    means, squares = [], []
    for spec in specs:
        total = _added(builder, [builder.input(spec) for _ in range(givers)])
        mean = formula(builder, [total], lambda t: t / float(micros)) if micros > 1 else total
        flat = reshaped(builder, mean, (spec.count,))
        means.append(mean)
        squares.append(reduced(builder, "sum", call(builder, "mul", flat, flat), (0,)))
    whole = squares[0] if len(squares) == 1 else builder.add("concat", squares, axis=0)
    return builder.build([*means, whole])


def _verdict(staging: Staging, means: Sequence[tuple[list[int], int]], losses: int) -> Graph:
    """From losses and squares: the mean loss (1,), the norms (1, parameters), and what the steps
    are told (2,): 1 where all is finite, and the factor of clipping."""
    builder = GraphBuilder()
    spec = staging.loss.output_specs()[0]
    given = [reshaped(builder, builder.input(spec), (1,)) for _ in range(losses)]
    vectors = [builder.input(TensorSpec("float32", (len(group),))) for group, _ in means]
    total = _added(builder, given)
    loss = total
    if staging.micros > 1:
        loss = formula(builder, [total], lambda t: t / float(staging.micros))
    squares = vectors[0] if len(vectors) == 1 else builder.add("concat", vectors, axis=0)
    norms = call(builder, "sqrt", squares)
    whole = reduced(builder, "sum", squares, (0,))
    one, none = number(builder, 1.0), number(builder, 0.0)
    sane = formula(
        builder, [loss, whole, one, none],
        lambda loss, all_, yes, no: where((loss + all_).call("isfinite", dtype="bool"), yes, no),
    )  # fmt: skip
    factor = formula(builder, [whole], lambda all_: all_ * 0.0 + 1.0)
    if staging.clip_norm is not None:
        norm = staging.clip_norm
        factor = formula(
            builder, [whole], lambda all_: (norm / (all_.call("sqrt") + 1e-6)).call("min", 1.0)
        )
    told = builder.add("concat", [sane, factor], axis=0)
    count = sum(len(group) for group, _ in means)
    return builder.build([loss, reshaped(builder, norms, (1, count)), told])


def _steps(
    staging: Staging, made: _Round, specs: Sequence[TensorSpec],
    means: Sequence[tuple[list[int], int]], judge: int,
) -> None:  # fmt: skip
    optimizer = staging.optimizer
    counts = [len(optimizer.slots(spec)) for spec in specs]

    def state_of(place: int, slot: int) -> int:
        """Where a tensor of the state is among the carried ones; see `_stored`."""
        if optimizer.elementwise:
            return len(specs) * (1 + slot) + place
        return len(specs) + sum(counts[:place]) + slot

    for group, at in means:
        own = [specs[place] for place in group]
        state = [state_of(place, slot) for place in group for slot in range(counts[place])]
        sources = [
            *(Source("carried", place) for place in group),
            *(Source("carried", one) for one in state),
            Source("step"),
            *(Source("item", at, slot) for slot in range(len(group))),
            Source("item", judge, 2),
        ]
        graph = _step_graph(optimizer, own)
        made.add(Item(graph, tuple(sources), STEP_AFFINITY, carried=(*group, *state)))


def _step_graph(optimizer: Optimizer, specs: Sequence[TensorSpec]) -> Graph:
    """Tensors, their state, the number of the step (1,), mean gradients, what the verdict says."""
    builder = GraphBuilder()
    weights = [builder.input(spec) for spec in specs]
    state = [[builder.input(one.spec) for one in optimizer.slots(spec)] for spec in specs]
    counted = builder.input(TensorSpec("int64", (1,)))
    slopes = [builder.input(spec) for spec in specs]
    told = builder.input(TensorSpec("float32", (2,)))
    step = reshaped(builder, builder.add("cast", [counted], dtype="float32"), ())
    sane = reshaped(builder, builder.add("slice", [told], start=(0,), stop=(1,), step=(1,)), ())
    factor = reshaped(builder, builder.add("slice", [told], start=(1,), stop=(2,), step=(1,)), ())
    shared = optimizer.shared(builder, step)
    after, kept = [], []
    for value, slope, own in zip(weights, slopes, state, strict=True):
        clipped = call(builder, "mul", slope, factor)
        found, later = optimizer.update(builder, shared, value, clipped, own)
        after.append(_chosen(builder, sane, found, value))
        kept += [_chosen(builder, sane, new, old) for new, old in zip(later, own, strict=True)]
    return builder.build([*after, *kept])


def _chosen(builder: GraphBuilder, sane: int, new: int, old: int) -> int:
    return formula(builder, [sane, new, old], lambda good, one, two: where(good < 0.5, two, one))
