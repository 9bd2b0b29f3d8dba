"""Trainings: the researcher's client and the lab node.

Owns: the dialogue `training.*`. A training is a job; what every job has is said by `job.*`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import (
    ArrayIdField,
    Assurance,
    Count,
    Hex64,
    NumericClass,
    Seconds,
    Shape,
)
from gpugoblin.wire.messages.job import JobInfo, JobName, Text
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.registry import message

__all__ = [
    "CarriedTensor",
    "ChosenSteps",
    "EvaluationSubmit",
    "GraphSlot",
    "InTime",
    "LateShards",
    "LocalRounds",
    "LocalStepsAsk",
    "NamedTensor",
    "RoundRow",
    "TrainingInfo",
    "TrainingRounds",
    "TrainingSubmit",
]

Steps = Annotated[int, Meta(ge=1, le=10_000_000)]
Words = Annotated[str, Meta(min_length=2, max_length=4096)]
"""JSON of an optimizer's words; their reader checks them."""

Positive = Annotated[float, Meta(gt=0, le=1e30)]


class GraphSlot(Struct, frozen=True, forbid_unknown_fields=True):
    """What an input of a graph is; see `gpugoblin.plan.microbatches.Slot`."""

    kind: Literal["parameter", "buffer", "count", "fixed", "data", "key"]
    array: Annotated[int, Meta(ge=0, le=255)] = 0
    offset: Count = 0


class NamedTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor of the model in its flat array."""

    kind: Literal["parameter", "buffer", "count"]
    name: Text
    offset: Count
    shape: Shape


class EvaluationSubmit(Struct, frozen=True, forbid_unknown_fields=True):
    """The loss on data that is not trained on, every `every` steps. `graph` has one output, and
    reads the arrays of `data` in parts of as many rows as its inputs have.

    With `patience`, a training ends when so many evaluations in a row were no better than the best
    before them by `least`.
    """

    graph: Annotated[bytes, Meta(max_length=1024 * 1024)]
    slots: Annotated[tuple[GraphSlot, ...], Meta(max_length=4096)]
    data: Annotated[tuple[ArrayIdField, ...], Meta(min_length=1, max_length=16)]
    every: Steps
    keys: ArrayIdField | None = None
    patience: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    least: Annotated[float, Meta(ge=0, le=1e30)] = 0.0


@message("training.pace", sender="client", receiver="node", max_bytes=4 * 1024 * 1024)
class LocalStepsAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """How many local steps should a round of this training make? Fields as in `TrainingSubmit`.

    Args:
        steps: of the optimizer, all rounds together. shards: tasks of a round.
        examples: that the data has. micro: of them in a local step.
    """

    graph: Annotated[bytes, Meta(max_length=1024 * 1024)]
    slots: Annotated[tuple[GraphSlot, ...], Meta(max_length=4096)]
    updates: Annotated[tuple[Annotated[int, Meta(ge=0, le=4095)], ...], Meta(max_length=4096)]
    tensors: Annotated[tuple[NamedTensor, ...], Meta(min_length=1, max_length=4096)]
    optimizer: Words
    steps: Steps
    micro: Steps
    examples: Count
    shards: Annotated[int, Meta(ge=1, le=256)]
    clip_norm: Positive | None = None
    numeric_class: NumericClass = "exact"
    executor: Literal["auto", "local", "grid", "ray"] = "auto"


@message("training.local_steps", sender="node", receiver="client", max_bytes=64 * 1024)
class ChosenSteps(Struct, frozen=True, forbid_unknown_fields=True):
    """How many local steps a round makes, and why (`gpugoblin.plan.local_steps`).

    Args:
        devices: whose links were measured; 0: none, the figures are those of the lab's own
            machines, or assumed.
        step_s, latency_s, bytes_per_s, round_bytes, step_bytes: what it was chosen by.
        utilisation: the share of the time in which devices compute, if these hold.
    """

    steps: Annotated[int, Meta(ge=2, le=1024)]
    devices: Count
    step_s: Seconds
    latency_s: Seconds
    bytes_per_s: Positive
    round_bytes: Count
    step_bytes: Count
    utilisation: Annotated[float, Meta(ge=0, le=1)]


InTime = Annotated[str, Meta(pattern=r"\A[01]*\Z", max_length=256)]
"""Which shards of a round were in time ("1"), and which are taken into the next one ("0")."""


class LateShards(Struct, frozen=True, forbid_unknown_fields=True):
    """Rounds that end without all their shards (`gpugoblin.plan.arrivals`).

    Args:
        quorum: shards without which no round ends. weight: what a late one counts in the next.
        record: what was in time, by round, in a run that is repeated; empty: the clock says it.
    """

    quorum: Annotated[int, Meta(ge=1, le=256)]
    weight: Annotated[float, Meta(gt=0, le=1)] = 0.5
    record: Annotated[tuple[InTime, ...], Meta(max_length=50_000)] = ()


class LocalRounds(Struct, frozen=True, forbid_unknown_fields=True):
    """Rounds of which each task makes several steps of the optimizer.

    Args:
        steps: in a task. shards: tasks of a round. rate, momentum: of the outer step.
        chosen: where the node chose `steps`, by what; no part of what is computed.
        late: where rounds end without all their shards; None: each waits for all.
    """

    steps: Annotated[int, Meta(ge=1, le=1024)]
    shards: Annotated[int, Meta(ge=1, le=256)]
    rate: Positive = 0.7
    momentum: Annotated[float, Meta(ge=0, le=0.999)] = 0.9
    chosen: ChosenSteps | None = None
    late: LateShards | None = None


@message("training.submit", sender="client", receiver="node", max_bytes=16 * 1024 * 1024)
class TrainingSubmit(Struct, frozen=True, forbid_unknown_fields=True):
    """Train a model. `graph` gives the loss of one micro-batch and the buffers that it writes.

    Args:
        slots: what its inputs are. updates: for its further outputs the inputs that they become.
        tensors: the model's own, by name.
        parameters, buffers, counts: flat arrays before the first step.
        state: of the optimizer, flat, as an earlier run left it; empty: zeros.
        steps_array, keys: int64, the number of each step, and two of each micro-batch, in a row.
        data: arrays whose rows are examples. fixed: flat arrays that never change.
        optimizer: its words (`gpugoblin.optim.words`).
        first_step: steps that earlier runs have done.
        local: rounds of several steps; `steps` and `first_step` then count rounds.
        batch: examples a step (a round). micro: examples of a task (of one of its steps).
        keep_every: weights of every so many steps are kept; 0: only the newest.
    """

    graph: Annotated[bytes, Meta(max_length=1024 * 1024)]
    slots: Annotated[tuple[GraphSlot, ...], Meta(max_length=4096)]
    updates: Annotated[tuple[Annotated[int, Meta(ge=0, le=4095)], ...], Meta(max_length=4096)]
    tensors: Annotated[tuple[NamedTensor, ...], Meta(min_length=1, max_length=4096)]
    parameters: ArrayIdField
    buffers: ArrayIdField | None
    counts: ArrayIdField | None
    state: Annotated[tuple[ArrayIdField, ...], Meta(max_length=8192)]
    steps_array: ArrayIdField
    keys: ArrayIdField
    data: Annotated[tuple[ArrayIdField, ...], Meta(min_length=1, max_length=16)]
    fixed: Annotated[tuple[ArrayIdField, ...], Meta(max_length=16)]
    optimizer: Words
    steps: Steps
    batch: Steps
    micro: Steps
    name: JobName | None = None
    first_step: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    clip_norm: Positive | None = None
    seed: Annotated[int, Meta(ge=0, le=2**62)] = 0
    shuffle: bool = True
    keep_every: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    evaluation: EvaluationSubmit | None = None
    local: LocalRounds | None = None
    numeric_class: NumericClass = "float32"
    assurance: Assurance = "full"
    executor: Literal["auto", "local", "grid", "ray"] = "auto"
    constraints: Constraints = Constraints()
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    dry_run: bool = False


class CarriedTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor that goes from step to step: a part of a checkpoint. Those of one kind and slot are,
    in order, parts of one flat tensor."""

    kind: Literal["parameter", "buffer", "count", "state"]
    dtype: Literal["float32", "int64"]
    shape: Shape
    nbytes: Count
    slot: Annotated[int, Meta(ge=0, le=8191)] = 0


@message("training.info", sender="node", receiver="client", max_bytes=16 * 1024 * 1024)
class TrainingInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A training as it stands.

    Args:
        steps: how many it is to do; done: how many are done and verified, in this run.
        version: number of the newest weights: steps done since the very first run.
        versions: those that are kept.
        stages: into how many the model is cut; 1 where an engine holds it.
        local_steps: steps of the optimizer in a task; more than 1: all of the above count rounds.
        ended_early: why it ended before its last step, in words; empty otherwise.
        chosen: by what the node chose `local_steps`, where it did.
    """

    job: JobInfo
    steps: Steps
    first_step: Count
    done: Count
    version: Count
    versions: Annotated[tuple[Count, ...], Meta(max_length=100_000)]
    stages: Count
    batch: Steps
    micro: Steps
    every: Annotated[int, Meta(ge=0, le=10_000_000)]
    tensors: Annotated[tuple[NamedTensor, ...], Meta(max_length=4096)]
    carried: Annotated[tuple[CarriedTensor, ...], Meta(max_length=8192)]
    optimizer: Words
    seed: Count
    shuffle: bool
    content: Hex64
    ended_early: Text = ""
    local_steps: Count = 1
    chosen: ChosenSteps | None = None


class RoundRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One round: who computed, what was verified how, what was done again, what travelled.
    `local_steps`: steps of the optimizer in each task. `in_time`: where rounds end without all
    their shards, which were there."""

    step: Count
    contributors: Count
    verified: Count
    by_recompute: Count
    by_agreement: Count
    redone: Count
    refused: Count
    bytes_in: Count
    bytes_out: Count
    began_s: Seconds
    ended_s: Seconds
    local_steps: Count = 1
    in_time: InTime = ""


@message("training.rounds", sender="node", receiver="client", max_bytes=16 * 1024 * 1024)
class TrainingRounds(Struct, frozen=True, forbid_unknown_fields=True):
    """Rounds that are done, in order."""

    rounds: Annotated[tuple[RoundRow, ...], Meta(max_length=10_000)]
