"""Tasks and results: what a device is asked to compute and what it answers.

Owns: `Task`, `Result`, `Capabilities`. No field here can hold a name, a path or a sentence.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from gpugoblin.wire.bounds import (
    Assurance,
    BlobHashField,
    Coding,
    Count,
    DeadlineClass,
    Dtype,
    DtypeNames,
    GraphBytes,
    Hex64,
    LeaseIdField,
    NumericClass,
    SandboxLevel,
    Shape,
    Signature,
    TaskIdField,
    VerifyMethodField,
    Version,
    Word,
)

__all__ = [
    "BlobRef",
    "Capabilities",
    "Constraints",
    "Counters",
    "OutputSpec",
    "Result",
    "Task",
    "TaskInput",
    "VerifyChoice",
]


class BlobRef(Struct, frozen=True, forbid_unknown_fields=True):
    """A blob by content, with the size that it will have."""

    blob: BlobHashField
    nbytes: Count


class TaskInput(Struct, frozen=True, forbid_unknown_fields=True):
    """Input `slot` of the task's graph. `nbytes` counts the coded bytes."""

    slot: Annotated[int, Meta(ge=0, le=1023)]
    blob: BlobHashField
    nbytes: Count
    coding: Coding = "raw"


class OutputSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Output `slot` of the task's graph."""

    slot: Annotated[int, Meta(ge=0, le=1023)]
    dtype: Dtype
    shape: Shape


class VerifyChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """One way in which the lab will check the result, and what that costs the lab."""

    method: VerifyMethodField
    cost_flops: Count


class Constraints(Struct, frozen=True, forbid_unknown_fields=True):
    """What a device must have. Zero and empty mean no constraint."""

    min_memory_bytes: Count = 0
    sandbox: SandboxLevel = "full"
    min_link_bytes_per_s: Count = 0


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """Evaluate `graph` on `inputs`: the only kind of work."""

    task: TaskIdField
    graph: GraphBytes
    inputs: Annotated[tuple[TaskInput, ...], Meta(max_length=256)]
    outputs: Annotated[tuple[OutputSpec, ...], Meta(max_length=256)]
    numeric_class: NumericClass
    assurance: Assurance
    verify: Annotated[tuple[VerifyChoice, ...], Meta(max_length=4)]
    memory_bound_bytes: Count
    flops: Count
    bytes_moved: Count = field(name="bytes")
    weight_version: Version
    seed_key: Annotated[bytes, Meta(max_length=16)]
    catalog_hash: Hex64
    operator_versions: Annotated[dict[Word, Version], Meta(max_length=128)]
    constraints: Constraints
    priority: Annotated[int, Meta(ge=-100, le=100)]
    affinity_key: Annotated[int, Meta(ge=0, le=2**62)]
    deadline_class: DeadlineClass
    parent: TaskIdField | None = None


class Counters(Struct, frozen=True, forbid_unknown_fields=True):
    """What the computation took on the device. Informative: credit never reads it."""

    compute_s: Annotated[float, Meta(ge=0, le=1e7)]
    peak_memory_bytes: Count


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """The commitment to a result: hashes first, bytes only after the node has drawn its secrets.

    `claim` is the device's signature over lease and grant, which a receipt needs (`wire.signing`);
    the lab's own engines have none.
    """

    lease: LeaseIdField
    outputs: Annotated[tuple[BlobRef, ...], Meta(max_length=256)]
    engine_build: Word
    driver: Word
    kernel_set: Hex64
    sandbox_level: SandboxLevel
    counters: Counters
    claim: Signature | None = None
    commitment_root: Hex64 | None = None


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """What one card of a device can do, with rates that were measured on it.

    The last three are dtypes, each sorted: of values, of operands of products, sums and orders, and
    of operands of convolutions. A lab gives it no task that needs another one.
    """

    catalog_hash: Hex64
    operators: Annotated[dict[Word, Version], Meta(max_length=256)]
    classes: Annotated[tuple[NumericClass, ...], Meta(max_length=8)]
    memory_bytes: Count
    max_slot_bytes: Count
    max_outputs: Annotated[int, Meta(ge=1, le=256)]
    flops_per_s: Annotated[float, Meta(ge=0, le=1e18)]
    bytes_per_s: Annotated[float, Meta(ge=0, le=1e15)]
    sandbox_level: SandboxLevel
    engine_build: Word
    driver: Word
    kernel_set: Hex64
    dtypes: DtypeNames
    arithmetic: DtypeNames
    convolutions: DtypeNames
