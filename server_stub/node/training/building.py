"""From the message of a training to its plan.

Owns: what is said against a training before it starts, and the plan that follows from the message
and the specs of its arrays: the same in every life of the node. Must not: read a row or a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError, NodeError, PlanError
from gpugoblin.graph.check import LIMITS
from gpugoblin.graph.classes import in_class
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import optimizer_of
from gpugoblin.plan.microbatches import MicroBatch, Slot, loss_graph, micro_batch
from gpugoblin.plan.order import Order
from gpugoblin.plan.round_items import Stored
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.whole_rounds import evaluation_of, groups_of, round_of
from gpugoblin.wire.messages.training import (
    EvaluationSubmit,
    GraphSlot,
    LateShards,
    LocalRounds,
    LocalStepsAsk,
    TrainingSubmit,
)
from server_stub.node.training.local_rounds import (
    Outer,
    late_shards,
    local_graph,
    local_round,
    outer_graph,
)
from server_stub.node.training.staging import Held, Program, Staging, staged_plan
from server_stub.node.training.stepping import (
    Parameter,
    Stepping,
    mean_of,
    state_specs,
    step_graph,
    sum_of,
)

__all__ = [
    "ArraySpecs",
    "alone",
    "graph_of",
    "make_plan",
    "read_plan",
    "slots_of",
    "staged",
    "whole_plan",
]


class ArraySpecs(Struct, frozen=True):
    """Shapes and dtypes of the arrays that a training reads, (dtype, shape) of each; and, where the
    model is cut into stages, the limits that they were cut for."""

    data: tuple[tuple[str, tuple[int, ...]], ...]
    fixed: tuple[tuple[str, tuple[int, ...]], ...]
    evaluated: tuple[tuple[str, tuple[int, ...]], ...] = ()
    stages_within: Limits | None = None


_MOST_MICROS: Final = 1 << 16


def graph_of(data: bytes, numeric_class: str) -> Graph:
    """A graph of the message, rounded as the class says."""
    return in_class(decode(data), numeric_class)


def slots_of(given: Sequence[GraphSlot]) -> list[Slot]:
    """The slots of a message."""
    return [Slot(one.kind, one.array, one.offset) for one in given]


def _optimizer(message: TrainingSubmit | LocalStepsAsk) -> Optimizer:
    try:
        words: Any = msgspec.json.decode(message.optimizer, type=dict[str, Any])
    except msgspec.DecodeError as cause:
        raise PlanError("training_malformed", reason=f"the optimizer: {cause}") from cause
    return optimizer_of(words)


def _parameters(message: TrainingSubmit | LocalStepsAsk, total: int) -> tuple[Parameter, ...]:
    """The trained tensors, which lie in their flat one without gaps."""
    found = sorted(
        (one for one in message.tensors if one.kind == "parameter"), key=lambda one: one.offset
    )
    at = 0
    for one in found:
        if one.offset != at:
            raise PlanError("training_malformed", reason=f"{one.name} begins at {one.offset}")
        at += TensorSpec("float32", one.shape).count
    if at != total:
        reason = f"the tensors have {at} elements, their flat array has {total}"
        raise PlanError("training_malformed", reason=reason)
    return tuple(Parameter(one.offset, one.shape) for one in found)


def _specs(pairs: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in pairs)


def _require_arrays(what: str, graph: Sequence[TensorSpec], given: Sequence[TensorSpec]) -> None:
    """Data arrays have the dtype and the rows that the graph reads, and one number of rows."""
    if len(graph) != len(given):
        reason = f"the loss reads {len(graph)} {what} arrays, {len(given)} were given"
        raise PlanError("training_malformed", reason=reason)
    for number, (wanted, found) in enumerate(zip(graph, given, strict=True)):
        if wanted.dtype != found.dtype or wanted.shape[1:] != found.shape[1:] or not found.rank:
            raise NodeError("array_mismatch", number=number, wanted=wanted, found=found)
    lengths = sorted({spec.shape[0] for spec in given})
    if len(lengths) > 1:
        reason = f"the {what} arrays have {' and '.join(map(str, lengths))} examples"
        raise PlanError("training_malformed", reason=reason)


def _require_fixed(micro: MicroBatch, given: Sequence[TensorSpec]) -> None:
    """What a graph reads of the fixed arrays is there."""
    read = micro.graph.inputs[len(micro.graph.inputs) - len(micro.fixed) :]
    for number, spec in zip(micro.fixed, read, strict=True):
        if number >= len(given):
            reason = f"fixed array {number} is read, {len(given)} were given"
            raise PlanError("training_malformed", reason=reason)
        if given[number].dtype != spec.dtype or given[number].count < spec.count:
            raise NodeError("array_mismatch", number=number, wanted=spec, found=given[number])


def make_plan(message: TrainingSubmit, arrays: ArraySpecs) -> RoundsPlan:
    """The plan of a training: whole, or in stages where the specs say so.

    Raises:
        GoblinError: as `whole_plan` and `staged`.
    """
    if arrays.stages_within is None:
        return whole_plan(message, arrays)
    return staged(message, arrays, arrays.stages_within)


def staged(message: TrainingSubmit, arrays: ArraySpecs, limits: Limits) -> RoundsPlan:
    """The plan of a training whose model is cut into stages.

    Raises:
        PlanError: `plan_layer_does_not_fit`, and as `whole_plan`.
    """
    loss = graph_of(message.graph, message.numeric_class)
    slots = tuple(slots_of(message.slots))
    micro = micro_batch(loss, slots, message.updates)
    _parameters(message, micro.graph.inputs[0].count)
    data = _specs(arrays.data)
    first = len(micro.carried)
    _require_arrays("data", micro.graph.inputs[first : first + micro.data], data)
    _require_fixed(micro, _specs(arrays.fixed))
    names = {one.offset: one.name for one in message.tensors if one.kind == "parameter"}
    wanted, held = message.evaluation, None
    if wanted is not None:
        found = _held(micro, message, wanted, arrays)
        program = Program(found.graph, tuple(slots_of(wanted.slots)))
        held = Held(
            program, wanted.every, found.parts, found.micro.rows, found.data, found.micro.keyed
        )
    staging = Staging(
        Program(loss, slots), message.updates, names, _optimizer(message), message.clip_norm,
        message.batch // message.micro, message.micro, message.steps, message.first_step,
        Order(data[0].shape[0], message.batch, message.seed, message.shuffle), data,
        _specs(arrays.fixed), held,
    )  # fmt: skip
    return staged_plan(staging, limits)


def whole_plan(message: TrainingSubmit, arrays: ArraySpecs) -> RoundsPlan:
    """The plan of a training whose micro-batches are tasks.

    Raises:
        PlanError: `training_malformed`, `nothing_trainable`, `loss_not_one_number`,
            `data_too_short`, `batch_not_divisible`.
        GraphError, NodeError: what is wrong with a graph or an array.
    """
    loss = graph_of(message.graph, message.numeric_class)
    micro = micro_batch(loss, slots_of(message.slots), message.updates)
    if message.batch % message.micro or micro.rows != message.micro:
        raise PlanError("batch_not_divisible", batch=message.batch, rows=micro.rows)
    if message.local is not None:
        return _local_plan(message, message.local, arrays, micro)
    micros = message.batch // message.micro
    data, fixed = _specs(arrays.data), _specs(arrays.fixed)
    first = len(micro.carried)
    _require_arrays("data", micro.graph.inputs[first : first + micro.data], data)
    _require_fixed(micro, fixed)
    if micros > _MOST_MICROS:
        reason = f"a batch in {micros} micro-batches; at most {_MOST_MICROS} are possible"
        raise PlanError("training_malformed", reason=reason)
    groups = groups_of(micros)
    flat = micro.graph.inputs[0]
    stepping = Stepping(
        micro, _optimizer(message), _parameters(message, flat.count), len(groups) or micros,
        micros, message.clip_norm,
    )  # fmt: skip
    sums = {size: sum_of(micro, size) for size in sorted({len(group) for group in groups})}
    state = state_specs(stepping)
    carried = (*micro.graph.inputs[:first], *state)
    held = None
    if message.evaluation is not None:
        found = _held(micro, message, message.evaluation, arrays)
        score = mean_of(found.parts)
        held = evaluation_of(found.micro, score, message.evaluation.every, found.parts, found.data)
    return RoundsPlan(
        items=round_of(micro, sums, step_graph(stepping), len(carried), micros),
        stored=tuple(Stored(array, 0, spec) for array, spec in enumerate(carried)), flat=carried,
        rounds=message.steps, micros=micros, rows=micro.rows, first=message.first_step,
        order=Order(data[0].shape[0], message.batch, message.seed, message.shuffle),
        data=data, fixed=fixed, tensors=len(stepping.parameters),
        parts=(
            *((kind, 0) for kind in micro.carried), *(("state", slot) for slot in range(len(state)))
        ),
        evaluation=held,
    )  # fmt: skip


def _local_plan(
    message: TrainingSubmit, wanted: LocalRounds, arrays: ArraySpecs, micro: MicroBatch
) -> RoundsPlan:
    """Rounds of several steps; see `local_rounds`."""
    per_round = wanted.shards * wanted.steps * micro.rows
    if message.batch != per_round:
        raise PlanError("batch_not_divisible", batch=message.batch, rows=per_round)
    data, fixed = _specs(arrays.data), _specs(arrays.fixed)
    first = len(micro.carried)
    _require_arrays("data", micro.graph.inputs[first : first + micro.data], data)
    _require_fixed(micro, fixed)
    flat = micro.graph.inputs[0]
    stepping = alone(message, micro)
    local = _local_graph(stepping, wanted.steps)
    late = wanted.late
    moving = Outer(wanted.rate, wanted.momentum, late.weight if late else 0.0)
    outer = outer_graph(stepping, local, wanted.shards, moving)
    lateness = None
    if late is not None:
        _require_late(late, wanted.shards, message.steps)
        lateness = late_shards(stepping, local, wanted.shards, moving, late.quorum, late.record)
    carried = (*micro.graph.inputs[:first], flat)
    held = None
    if message.evaluation is not None:
        found = _held(micro, message, message.evaluation, arrays)
        score = mean_of(found.parts)
        held = evaluation_of(found.micro, score, message.evaluation.every, found.parts, found.data)
    return RoundsPlan(
        items=local_round(micro, local, outer, wanted.shards),
        stored=tuple(Stored(array, 0, spec) for array, spec in enumerate(carried)), flat=carried,
        rounds=message.steps, micros=wanted.shards, rows=wanted.steps * micro.rows,
        first=message.first_step,
        order=Order(data[0].shape[0], message.batch, message.seed, message.shuffle),
        data=data, fixed=fixed, tensors=len(stepping.parameters),
        parts=(*((kind, 0) for kind in micro.carried), ("state", 0)), span=wanted.steps,
        evaluation=held, lateness=lateness,
    )  # fmt: skip


def _require_late(late: LateShards, shards: int, rounds: int) -> None:
    """Raises PlanError `training_malformed` for late shards that cannot be."""
    reason = ""
    if late.quorum > shards:
        reason = f"a quorum of {late.quorum} of {shards} shards"
    elif late.record and len(late.record) != rounds:
        reason = f"the record has {len(late.record)} rounds, the training {rounds}"
    elif any(len(one) != shards or one.count("1") < late.quorum for one in late.record):
        reason = f"a round of the record has not {late.quorum} to {shards} shards in time"
    elif late.record and "0" in late.record[-1]:
        reason = "the record's last round leaves shards to one after it"
    if reason:
        raise PlanError("training_malformed", reason=reason)


def alone(message: TrainingSubmit | LocalStepsAsk, micro: MicroBatch) -> Stepping:
    """What a local step is made from. Raises PlanError `training_malformed`."""
    parameters = _parameters(message, micro.graph.inputs[0].count)
    return Stepping(micro, _optimizer(message), parameters, 1, 1, message.clip_norm)


def _local_graph(stepping: Stepping, steps: int) -> Graph:
    """The graph of a task of several steps, refused before it is made where it is too large."""
    most = LIMITS.nodes // len(local_graph(stepping, 1).nodes)
    try:
        if steps <= most:
            return local_graph(stepping, steps)
    except GraphError as error:
        if error.code != "over_limit":
            raise
        most = steps // 2  # Something else than nodes, of which every step has as many.
    raise PlanError("local_steps_too_many", steps=steps, most=most)


@dataclass(frozen=True, slots=True)
class _Held:
    """An evaluation as it was asked for: its loss, the task of a part of it, how many there are,
    and its arrays."""

    graph: Graph
    micro: MicroBatch
    parts: int
    data: tuple[TensorSpec, ...]


def _held(
    of: MicroBatch, message: TrainingSubmit, wanted: EvaluationSubmit, arrays: ArraySpecs
) -> _Held:
    data = _specs(arrays.evaluated)
    graph = graph_of(wanted.graph, message.numeric_class)
    micro = loss_graph(graph, slots_of(wanted.slots))
    first = len(micro.carried)
    specs = micro.graph.inputs
    if micro.carried != of.carried[:first] or specs[:first] != of.graph.inputs[:first]:
        raise PlanError("training_malformed", reason="evaluation reads what is not carried")
    _require_arrays("evaluation", specs[first : first + micro.data], data)
    _require_fixed(micro, _specs(arrays.fixed))
    parts = data[0].shape[0] // micro.rows
    if parts < 1:
        raise PlanError("data_too_short", examples=data[0].shape[0], batch=micro.rows)
    if parts > 256:
        reason = f"evaluation in {parts} parts; at most 256 are possible"
        raise PlanError("training_malformed", reason=reason)
    if wanted.every > message.steps:
        reason = f"evaluation every {wanted.every} of {message.steps} steps"
        raise PlanError("training_malformed", reason=reason)
    return _Held(graph, micro, parts, data)


@lru_cache(maxsize=16)
def read_plan(program: bytes, arrays: str) -> RoundsPlan:
    """The plan of a stored training.

    Raises:
        GraphError: graph_malformed, when it was written by another version of the program.
    """
    try:
        message = msgspec.json.decode(program, type=TrainingSubmit)
        specs = msgspec.json.decode(arrays, type=ArraySpecs)
    except msgspec.DecodeError as cause:
        raise GraphError("graph_malformed", where="a stored training", reason=str(cause)) from cause
    return make_plan(message, specs)
