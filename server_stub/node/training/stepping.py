"""The step that ends a round: gradients averaged in order, the optimizer, a guard.

Owns: the graph of a step, that of a sum of micro-batches, and that of a mean of losses. Must not:
know any one optimizer, or touch a number.

The step is a task like any other. Its graph adds the gradients in the order of the micro-batches,
so its result does not depend on the order in which they came. Where the loss or a gradient is not
finite, everything that is carried stays as it was: the last good weights are never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpugoblin.catalog.building import call, joined, reduced, reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.optim.step import Optimizer, clipped
from gpugoblin.optim.terms import formula, where
from gpugoblin.plan.microbatches import MicroBatch, unpacked

__all__ = [
    "Parameter",
    "Stepping",
    "added",
    "chosen",
    "finite",
    "mean_of",
    "norms_of",
    "scaled",
    "state_of",
    "state_specs",
    "step_graph",
    "sum_of",
    "updated",
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A trained tensor in the flat one."""

    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stepping:
    """What a step is made from. `givers`: micro-batches, or sums of them, that it takes."""

    micro: MicroBatch
    optimizer: Optimizer
    parameters: tuple[Parameter, ...]
    givers: int
    micros: int
    clip_norm: float | None


def _tensors(stepping: Stepping) -> list[TensorSpec]:
    """The tensors that the optimizer sees: all in one where it works element by element."""
    total = stepping.micro.graph.inputs[0]
    if stepping.optimizer.elementwise:
        return [total]
    return [TensorSpec("float32", one.shape) for one in stepping.parameters]


def state_of(stepping: Stepping) -> list[TensorSpec]:
    """The state of the optimizer as it sees it."""
    return [slot.spec for spec in _tensors(stepping) for slot in stepping.optimizer.slots(spec)]


def state_specs(stepping: Stepping) -> tuple[TensorSpec, ...]:
    """The state of the optimizer as it is carried: flat."""
    return tuple(TensorSpec(spec.dtype, (spec.count,)) for spec in state_of(stepping))


def added(builder: GraphBuilder, values: Sequence[int]) -> int:
    """Their sum, from the first to the last."""
    total = values[0]
    for value in values[1:]:
        total = call(builder, "add", total, value)
    return total


def sum_of(micro: MicroBatch, count: int) -> Graph:
    """The outputs of `count` micro-batches added up; counts are the first one's."""
    builder = GraphBuilder()
    specs = micro.graph.output_specs()
    values = [[builder.input(spec) for _ in range(count)] for spec in specs]
    return builder.build(
        [
            added(builder, group) if spec.dtype == "float32" else group[0]
            for spec, group in zip(specs, values, strict=True)
        ]
    )


def mean_of(count: int, shape: Sequence[int] = (1,)) -> Graph:
    """The mean of `count` losses of one element each, as (1,)."""
    builder = GraphBuilder()
    spec = TensorSpec("float32", tuple(shape))
    values = [reshaped(builder, builder.input(spec), (1,)) for _ in range(count)]
    return builder.build([scaled(builder, added(builder, values), count)])


def scaled(builder: GraphBuilder, total: int, count: int) -> int:
    """One `count`-th: divided, as a factor would be rounded where it is no power of two."""
    return total if count == 1 else formula(builder, [total], lambda t: t / float(count))


def step_graph(stepping: Stepping) -> Graph:
    """The graph of a step; inputs and outputs as `gpugoblin.plan.rounds` says.

    Raises:
        GraphError: attribute_invalid, over_limit.
    """
    micro = stepping.micro
    builder = GraphBuilder()
    weights = [builder.input(spec) for spec in micro.graph.inputs[: len(micro.carried)]]
    carried_state = [builder.input(spec) for spec in state_specs(stepping)]
    state = [
        reshaped(builder, value, spec.shape)
        for value, spec in zip(carried_state, state_of(stepping), strict=True)
    ]
    number = builder.input(TensorSpec("int64", (1,)))
    given = [
        [builder.input(spec) for _ in range(stepping.givers)] for spec in micro.graph.output_specs()
    ]
    loss, slope, *written = (
        scaled(builder, added(builder, group), stepping.micros)
        if builder.spec(group[0]).dtype == "float32"
        else group[0]
        for group in given
    )
    norms = norms_of(builder, slope, stepping.parameters)
    step = reshaped(builder, builder.add("cast", [number], dtype="float32"), ())
    after, kept = updated(builder, stepping, step, (weights[0], slope), state)
    fresh = [after, *written, *kept]
    sane = finite(builder, loss, norms)
    carried = [
        chosen(builder, sane, new, old)
        for new, old in zip(fresh, [*weights, *carried_state], strict=True)
    ]
    return builder.build([*carried, loss, norms])


def updated(
    builder: GraphBuilder,
    stepping: Stepping,
    step: int,
    pair: tuple[int, int],
    state: Sequence[int],
    since: int | None = None,
) -> tuple[int, list[int]]:
    """The flat parameters and the state after the optimizer's step; `since` as in `shared`."""
    optimizer = stepping.optimizer
    weights, slope = pair
    if optimizer.elementwise:
        values, slopes = [weights], [slope]
    else:
        cut = [(one.offset, one.shape) for one in stepping.parameters]
        values = [unpacked(builder, weights, *one) for one in cut]
        slopes = [unpacked(builder, slope, *one) for one in cut]
    if stepping.clip_norm is not None:
        slopes = clipped(builder, slopes, stepping.clip_norm)
    shared = optimizer.shared(builder, step, since)
    left, after = list(state), list[int]()
    kept: list[int] = []
    for value, one in zip(values, slopes, strict=True):
        count = len(optimizer.slots(builder.spec(value)))
        own, left = left[:count], left[count:]
        found, later = optimizer.update(builder, shared, value, one, own)
        after.append(reshaped(builder, found, (builder.spec(found).count,)))
        kept.extend(reshaped(builder, one, (builder.spec(one).count,)) for one in later)
    return joined(builder, after), kept


def norms_of(builder: GraphBuilder, slope: int, parameters: Sequence[Parameter]) -> int:
    """The norm of the gradient of each parameter, (1, parameters)."""
    found = []
    for one in parameters:
        part = unpacked(builder, slope, one.offset, (TensorSpec("float32", one.shape).count,))
        squares = call(builder, "mul", part, part)
        found.append(reduced(builder, "sum", squares, (0,)))
    sums = joined(builder, found)
    return reshaped(builder, call(builder, "sqrt", sums), (1, len(parameters)))


def finite(builder: GraphBuilder, loss: int, norms: int) -> int:
    """Whether the loss and every norm is a number, as a bool of shape (1,)."""
    total = reshaped(builder, reduced(builder, "sum", norms, (1,)), (1,))
    return formula(
        builder, [loss, total], lambda one, two: (one + two).call("isfinite", dtype="bool")
    )


def chosen(builder: GraphBuilder, sane: int, new: int, old: int) -> int:
    """The new tensor where all is sane, else the old one."""
    flag = reshaped(builder, sane, (1,) * builder.spec(old).rank)
    return formula(builder, [flag, new, old], lambda good, one, two: where(good, one, two))
