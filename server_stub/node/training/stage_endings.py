"""The end of a round in stages: sums of gradients, one verdict on all of them, the steps.

Owns: the graphs and the items of it, and which tensors are stepped together. Must not: know the
cuts of a model, or touch a number.

Sums add in the order of micro-batches and stages, in groups of a fixed size, so the result does not
depend on who was first. One item looks at all gradients, for the norm and for what is not finite,
and tells every step. Tensors that the program itself writes become the mean of what the
micro-batches made of them (integers: what the first one did), as in a round without stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpugoblin.catalog.building import call, joined, number, reduced, reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.terms import formula, where
from gpugoblin.plan.round_items import STEP_AFFINITY, Item, Source
from gpugoblin.plan.spec import Limits

__all__ = ["Ending", "RoundItems", "Written", "grouped", "write_end"]

ARITY: Final = 4
SHARE: Final = 16
"""Tensors that are stepped together take no more than this part of an engine's memory."""
_SUMS: Final = 1 << 20
"""Affinities of what ends a round; those of stages are their numbers."""


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor that the program writes: its place among the carried ones, and what each micro-batch
    made of it; empty where none did."""

    place: int
    spec: TensorSpec
    givers: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """What the end of a round is made from.

    Args:
        specs, names: of the trained tensors, the first of the carried ones.
        gradients: of each, in the order in which they are added. losses: of the micro-batches.
        loss: the spec of one. state: where the state of the optimizer begins among the carried.
    """

    optimizer: Optimizer
    clip_norm: float | None
    micros: int
    specs: tuple[TensorSpec, ...]
    names: tuple[str, ...]
    gradients: tuple[tuple[Source, ...], ...]
    losses: tuple[Source, ...]
    loss: TensorSpec
    written: tuple[Written, ...]
    state: int


@dataclass(slots=True)
class RoundItems:
    """The items of a round as they are made."""

    items: list[Item] = field(default_factory=list)

    def add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1


def grouped(sizes: Sequence[int], most_bytes: int, most: int) -> list[list[int]]:
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


def write_end(ending: Ending, made: RoundItems, limits: Limits) -> None:
    """Adds sums, means with their squares, the verdict, and the steps.

    Raises:
        PlanError: `training_malformed`.
    """
    specs = ending.specs
    for place, givers in enumerate(ending.gradients):
        if not givers:
            reason = f"the loss does not depend on {ending.names[place]}"
            raise PlanError("training_malformed", reason=reason)
    groups = []
    for group in grouped([spec.nbytes for spec in specs], limits.memory_bytes // SHARE, 32):
        groups += _alike(group, [len(givers) for givers in ending.gradients])
    means: list[tuple[list[int], int]] = []
    for group in groups:
        own = [specs[place] for place in group]
        left = _few(made, own, [list(ending.gradients[place]) for place in group], ARITY)
        graph = _mean_graph(own, len(left[0]), ending.micros)
        sources = tuple(source for givers in left for source in givers)
        means.append((group, made.add(Item(graph, sources, _SUMS))))
    losses = _few(made, [ending.loss], [list(ending.losses)], ARITY * ARITY)[0]
    verdict = _verdict(ending, means, len(losses))
    squares = [Source("item", at, len(group)) for group, at in means]
    judge = made.add(Item(verdict, (*losses, *squares), _SUMS + 1, series=(0, 1, None)))
    _writes(ending, made, judge, limits)
    _steps(ending, made, means, judge)


def _alike(group: Sequence[int], givers: Sequence[int]) -> list[list[int]]:
    """Parts of a group with equally many givers: tied tensors have more."""
    parts: list[list[int]] = []
    for place in group:
        if parts and givers[parts[-1][-1]] == givers[place]:
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


def _few(
    made: RoundItems, specs: Sequence[TensorSpec], givers: list[list[Source]], most: int
) -> list[list[Source]]:
    """Sums of sums until no tensor has more than `most` addends."""
    while len(givers[0]) > most:
        givers = _summed(made, specs, givers)
    return givers


def _summed(
    made: RoundItems, specs: Sequence[TensorSpec], givers: Sequence[list[Source]]
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
    return builder.build([*means, joined(builder, squares)])


def _verdict(ending: Ending, means: Sequence[tuple[list[int], int]], losses: int) -> Graph:
    """From losses and squares: the mean loss (1,), the norms (1, parameters), and what the steps
    are told (2,): 1 where all is finite, and the factor of clipping."""
    builder = GraphBuilder()
    spec = ending.loss
    given = [reshaped(builder, builder.input(spec), (1,)) for _ in range(losses)]
    vectors = [builder.input(TensorSpec("float32", (len(group),))) for group, _ in means]
    total = _added(builder, given)
    loss = total
    if ending.micros > 1:
        loss = formula(builder, [total], lambda t: t / float(ending.micros))
    squares = joined(builder, vectors)
    norms = call(builder, "sqrt", squares)
    whole = reduced(builder, "sum", squares, (0,))
    one, none = number(builder, 1.0), number(builder, 0.0)
    sane = formula(
        builder, [loss, whole, one, none],
        lambda loss, all_, yes, no: where((loss + all_).call("isfinite", dtype="bool"), yes, no),
    )  # fmt: skip
    factor = formula(builder, [whole], lambda all_: all_ * 0.0 + 1.0)
    if ending.clip_norm is not None:
        norm = ending.clip_norm
        factor = formula(
            builder, [whole], lambda all_: (norm / (all_.call("sqrt") + 1e-6)).call("min", 1.0)
        )
    told = builder.add("concat", [sane, factor], axis=0)
    count = sum(len(group) for group, _ in means)
    return builder.build([loss, reshaped(builder, norms, (1, count)), told])


def _writes(ending: Ending, made: RoundItems, judge: int, limits: Limits) -> None:
    """The steps of tensors that the program writes."""
    sizes = [one.spec.nbytes for one in ending.written]
    kinds = [(one.spec.dtype, bool(one.givers)) for one in ending.written]
    for group in grouped(sizes, limits.memory_bytes // SHARE, 32):
        start = 0
        for end in range(1, len(group) + 1):
            if end < len(group) and kinds[group[end]] == kinds[group[start]]:
                continue
            own = [ending.written[place] for place in group[start:end]]
            specs, start = [one.spec for one in own], end
            left = [list(one.givers) for one in own]
            if specs[0].dtype == "float32":
                left = _few(made, specs, left, ARITY)
            else:
                left = [givers[:1] for givers in left]
            sources = [
                *(Source("carried", one.place) for one in own),
                *(source for givers in left for source in givers),
                *([Source("item", judge, 2)] if left[0] else []),
            ]
            graph = _written_graph(specs, len(left[0]), ending.micros)
            places = tuple(one.place for one in own)
            made.add(Item(graph, tuple(sources), STEP_AFFINITY, carried=places))


def _written_graph(specs: Sequence[TensorSpec], givers: int, micros: int) -> Graph:
    """Tensors, what micro-batches (or sums of them) made of each, what the verdict says. Without
    givers they stay as they are."""
    builder = GraphBuilder()
    old = [builder.input(spec) for spec in specs]
    if not givers:
        return builder.build(old)
    made = [[builder.input(spec) for _ in range(givers)] for spec in specs]
    sane = _told(builder, builder.input(TensorSpec("float32", (2,))), 0)
    after = []
    for value, parts, spec in zip(old, made, specs, strict=True):
        total = _added(builder, parts)
        if spec.dtype == "float32" and micros > 1:
            total = formula(builder, [total], lambda t: t / float(micros))
        after.append(_chosen(builder, sane, total, value))
    return builder.build(after)


def _steps(
    ending: Ending, made: RoundItems, means: Sequence[tuple[list[int], int]], judge: int
) -> None:
    optimizer, specs = ending.optimizer, ending.specs
    counts = [len(optimizer.slots(spec)) for spec in specs]

    def state_of(place: int, slot: int) -> int:
        """Where a tensor of the state is among the carried ones; see `staging`."""
        if optimizer.elementwise:
            return ending.state + len(specs) * slot + place
        return ending.state + sum(counts[:place]) + slot

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
    sane, factor = _told(builder, told, 0), _told(builder, told, 1)
    shared = optimizer.shared(builder, step)
    after, kept = [], []
    for value, slope, own in zip(weights, slopes, state, strict=True):
        clipped = call(builder, "mul", slope, factor)
        found, later = optimizer.update(builder, shared, value, clipped, own)
        after.append(_chosen(builder, sane, found, value))
        kept += [_chosen(builder, sane, new, old) for new, old in zip(later, own, strict=True)]
    return builder.build([*after, *kept])


def _told(builder: GraphBuilder, told: int, place: int) -> int:
    """A number of the verdict."""
    part = builder.add("slice", [told], start=(place,), stop=(place + 1,), step=(1,))
    return reshaped(builder, part, ())


def _chosen(builder: GraphBuilder, sane: int, new: int, old: int) -> int:
    return formula(builder, [sane, new, old], lambda good, one, two: where(good < 0.5, two, one))
