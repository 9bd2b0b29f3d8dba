"""The tasks of local-step rounds: several steps of the optimizer in one task, and the outer step.

Owns: the graph that steps on a contributor and gives what came of it in eighths of the bytes, and
the graph that takes those of all shards into the weights. Must not: know any one optimizer, or
touch a number.

A. Douillard and others, *DiLoCo: distributed low-communication training of language models* (2023):
each shard makes H steps of its own from the same weights; the mean of what they moved by is the
gradient of an outer step with Nesterov's momentum. The state of the inner optimizer begins at zero
in each round, so that a task needs nothing but the weights, and anybody can do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.building import call, filled, number, reduced, reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.optim.terms import formula, where
from gpugoblin.plan.microbatches import MicroBatch
from gpugoblin.plan.round_items import STEP_AFFINITY, Item, Lateness, Source
from server_stub.node.training.stepping import (
    Stepping,
    added,
    chosen,
    finite,
    norms_of,
    scaled,
    state_of,
    updated,
)

__all__ = [
    "BLOCK",
    "CLIP",
    "Outer",
    "late_shards",
    "local_graph",
    "local_round",
    "outer_graph",
]

BLOCK: Final = 256
"""Numbers that share a scale."""

LEVELS: Final = 127.0
CLIP: Final = 2.0
"""What a shard moved by is scaled down to so many times the middle one's norm."""

TRIMMED: Final = 5
"""From so many shards on the largest and the smallest of each number are left out."""


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer step: momentum of Nesterov, as the paper chose it. `late`: what a shard of the
    round before counts beside one of this round."""

    rate: float = 0.7
    momentum: float = 0.9
    late: float = 0.5


def local_graph(stepping: Stepping, steps: int) -> Graph:
    """`steps` steps of the optimizer, one micro-batch each.

    Inputs: as those of the micro-batch, with the numbers of the steps, (steps,), after what is
    carried, and data and keys of all steps in a row. Outputs: the mean loss (1,), what the weights
    moved by, against the sign of the move: int8 (blocks, `BLOCK`) in 127ths of float32 (blocks, 1);
    then buffers and counts as the last step left them.
    """
    micro = stepping.micro
    builder = GraphBuilder()
    count = len(micro.carried)
    specs = micro.graph.inputs
    carried = [builder.input(spec) for spec in specs[:count]]
    numbers = builder.input(TensorSpec("int64", (steps,)))
    ends = count + micro.data + (1 if micro.keyed else 0)
    rows = [TensorSpec(spec.dtype, (steps * spec.shape[0], *spec.shape[1:]))
            for spec in specs[count:ends]]  # fmt: skip
    sliced = [builder.input(spec) for spec in rows]
    fixed = [builder.input(spec) for spec in specs[ends:]]
    state = [filled(builder, spec) for spec in state_of(stepping)]
    values, losses = list(carried), []
    for step in range(steps):
        own = [
            _rows(builder, value, step * spec.shape[0], spec.shape[0])
            for value, spec in zip(sliced, specs[count:ends], strict=True)
        ]
        loss, slope, *written = replay(micro.graph, builder, [*values, *own, *fixed])
        counted = builder.add("cast", [_rows(builder, numbers, step, 1)], dtype="float32")
        at = reshaped(builder, counted, ())
        since = number(builder, float(step))
        weights, state = updated(builder, stepping, at, (values[0], slope), state, since)
        state = [
            reshaped(builder, one, spec.shape)
            for one, spec in zip(state, state_of(stepping), strict=True)
        ]
        values = [weights, *written]
        losses.append(loss)
    moved = call(builder, "sub", carried[0], values[0])
    mean = scaled(builder, added(builder, losses), steps)
    return builder.build([mean, *_packed(builder, moved), *values[1:]])


def _rows(builder: GraphBuilder, value: int, first: int, count: int) -> int:
    shape = builder.spec(value).shape
    if shape[0] == count:
        return value
    start, stop = (first, *(0 for _ in shape[1:])), (first + count, *shape[1:])
    return builder.add("slice", [value], start=start, stop=stop, step=(1,) * len(shape))


def _packed(builder: GraphBuilder, flat: int) -> tuple[int, int]:
    """A flat tensor as int8 in blocks, and their scales."""
    count = builder.spec(flat).count
    blocks = -(-count // BLOCK)
    if blocks * BLOCK != count:
        rest = filled(builder, TensorSpec("float32", (blocks * BLOCK - count,)))
        flat = builder.add("concat", [flat, rest], axis=0)
    table = reshaped(builder, flat, (blocks, BLOCK))
    largest = reduced(builder, "max", call(builder, "abs", table), (1,), keepdims=True)
    unit = formula(builder, [largest, number(builder, 1.0)],
                   lambda top, one: where(top <= 0.0, one, top / LEVELS))  # fmt: skip
    levels = call(builder, "round", call(builder, "div", table, unit))
    return builder.add("cast", [levels], dtype="int8"), unit


def _unpacked(builder: GraphBuilder, levels: int, unit: int, count: int) -> int:
    table = call(builder, "mul", builder.add("cast", [levels], dtype="float32"), unit)
    size = builder.spec(table).count
    flat = reshaped(builder, table, (size,))
    return flat if size == count else _rows(builder, flat, 0, count)


def outer_graph(
    stepping: Stepping, local: Graph, shards: int, outer: Outer, late: int = 0
) -> Graph:
    """The end of a round: what is carried (the model's, then the momentum), and what the shards
    gave, all of the first output, then all of the second; then of `late` shards of the round before
    the levels, and their scales. Outputs: what is carried, the loss (1,), the norms of the outer
    gradient (1, parameters)."""
    micro = stepping.micro
    builder = GraphBuilder()
    own = [builder.input(spec) for spec in micro.graph.inputs[: len(micro.carried)]]
    momentum = builder.input(micro.graph.inputs[0])
    given = [[builder.input(spec) for _ in range(shards)] for spec in local.output_specs()]
    losses, levels, units, *written = given
    for spec, group in zip(local.output_specs()[1:3], (levels, units), strict=True):
        group += [builder.input(spec) for _ in range(late)]
    count = builder.spec(momentum).count
    moved = [_unpacked(builder, *pair, count) for pair in zip(levels, units, strict=True)]
    clipped = _clipped(builder, moved, shards)
    slope = _mean(builder, clipped[:shards], clipped[shards:], outer.late)
    loss = scaled(builder, added(builder, losses), shards)
    norms = norms_of(builder, slope, stepping.parameters)
    sane = finite(builder, loss, norms)
    heavy = formula(builder, [momentum, slope], lambda m, g: m * outer.momentum + g)
    weights = formula(
        builder, [own[0], heavy, slope], lambda w, m, g: w - (g + m * outer.momentum) * outer.rate
    )
    after = [
        scaled(builder, added(builder, group), shards)
        if builder.spec(group[0]).dtype == "float32"
        else group[0]
        for group in written
    ]
    carried = [
        chosen(builder, sane, new, old)
        for new, old in zip([weights, *after, heavy], [*own, momentum], strict=True)
    ]
    return builder.build([*carried, loss, norms])


def _clipped(builder: GraphBuilder, moved: Sequence[int], shards: int) -> list[int]:
    """Each scaled down to `CLIP` times the middle norm of the first `shards`."""
    if shards < 3:
        return list(moved)
    norms = []
    for one in moved:
        square = reduced(builder, "sum", call(builder, "mul", one, one), (0,))
        norms.append(reshaped(builder, call(builder, "sqrt", square), (1,)))
    middle = _sorted(builder, norms[:shards])[(shards - 1) // 2]
    unit, found = number(builder, 1.0), []
    for one, norm in zip(moved, norms, strict=True):
        factor = formula(
            builder, [norm, middle, unit],
            lambda own, mid, full: where(own <= mid * CLIP, full, mid * CLIP / own),
        )  # fmt: skip
        found.append(call(builder, "mul", one, factor))
    return found


def _sorted(builder: GraphBuilder, values: Sequence[int]) -> list[int]:
    """Numbers in rising order: the exchanges of K. Batcher's merging (D. Knuth, *The art of
    computer programming* 3, 5.2.2, algorithm M)."""
    found, count = list(values), len(values)
    top = 1 << max(0, (count - 1).bit_length() - 1)
    part = top
    while part:
        far, first, gap = top, 0, part
        while True:
            for at in range(count - gap):
                if at & part == first:
                    pair = (found[at], found[at + gap])
                    found[at] = call(builder, "min", *pair)
                    found[at + gap] = call(builder, "max", *pair)
            if far == part:
                break
            far, first, gap = far // 2, part, far - part
        part //= 2
    return found


def _mean(builder: GraphBuilder, moved: Sequence[int], late: Sequence[int], weight: float) -> int:
    """Their mean; from `TRIMMED` on without the largest and the smallest of each number.

    Late ones count `weight` each; where ends are left out, none of their numbers lies beyond them.
    """
    total, count = added(builder, moved), len(moved)
    if count >= TRIMMED:
        least, most = moved[0], moved[0]
        for one in moved[1:]:
            least, most = call(builder, "min", least, one), call(builder, "max", most, one)
        total = formula(builder, [total, least, most], lambda all_, low, high: all_ - low - high)
        count -= 2
        late = [
            call(builder, "min", call(builder, "max", one, least), most) for one in late
        ]  # fmt: skip
    if not late:
        return scaled(builder, total, count)
    whole = count + weight * len(late)
    return formula(
        builder, [total, added(builder, late)], lambda one, two: (one + two * weight) / whole
    )


def late_shards(
    stepping: Stepping, local: Graph, shards: int, outer: Outer, quorum: int,
    record: tuple[str, ...],
) -> Lateness:  # fmt: skip
    """Rounds of so many shards that end with `quorum` of them, where the others are late."""

    # As many graphs as there are numbers of shards in time and late; a run meets few of them.
    @lru_cache(maxsize=32)
    def graph(here: int, late: int) -> Graph:
        return outer_graph(stepping, local, here, outer, late)

    def step(here: tuple[int, ...], late: tuple[int, ...]) -> Item:
        return _outer_step(stepping.micro, local, graph(len(here), len(late)), here, late)

    return Lateness(quorum, step, graph(shards, shards - quorum), record)


def local_round(micro: MicroBatch, local: Graph, outer: Graph, shards: int) -> tuple[Item, ...]:
    """The tasks of a round: a shard each, then the outer step."""
    count = len(micro.carried)
    items = []
    for shard in range(shards):
        fixed = local.inputs[len(local.inputs) - len(micro.fixed) :]
        sources = [
            *(Source("carried", one) for one in range(count)),
            Source("step"),
            *(Source("data", one, shard) for one in range(micro.data)),
            *([Source("key", 0, shard)] if micro.keyed else []),
            *(Source("fixed", one, 0, spec.count)
              for one, spec in zip(micro.fixed, fixed, strict=True)),
        ]  # fmt: skip
        items.append(Item(local, tuple(sources), 1))
    items.append(_outer_step(micro, local, outer, range(shards), ()))
    return tuple(items)


def _outer_step(
    micro: MicroBatch, local: Graph, outer: Graph, here: Sequence[int], late: Sequence[int]
) -> Item:
    """The outer step on shards of its round and on late ones of the round before."""
    count = len(micro.carried)
    ends = [
        *(Source("carried", one) for one in range(count + 1)),
        *(Source("item", shard, slot) for slot in range(len(local.outputs)) for shard in here),
        *(Source("earlier", shard, slot) for slot in (1, 2) for shard in late),
    ]
    series = (*(None for _ in range(count + 1)), 0, 1)
    return Item(outer, tuple(ends), STEP_AFFINITY, series, tuple(range(count + 1)))
