"""Jobs: the researcher's client and the lab node.

Owns: the dialogue `job.*`. Names, paths and source lines are allowed here and nowhere toward
devices or the coordinator.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import (
    ArrayIdField,
    Assurance,
    Count,
    Dtype,
    GraphHashField,
    Hex64,
    JobIdField,
    NumericClass,
    Seconds,
    Shape,
    Signature,
    Word,
)
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.registry import message

__all__ = [
    "ArrayCreate",
    "ArrayInfo",
    "Certificate",
    "CertificateBody",
    "GraphTolerance",
    "JobEvent",
    "JobEvents",
    "JobInfo",
    "JobList",
    "JobSubmit",
    "LostWork",
    "OutputSave",
    "PlanReply",
    "VerifiedBy",
]

Text = Annotated[str, Meta(max_length=1024)]
Path = Annotated[str, Meta(max_length=4096)]
JobName = Annotated[str, Meta(min_length=1, max_length=200)]


@message("array.create", sender="client", receiver="node", max_bytes=64 * 1024)
class ArrayCreate(Struct, frozen=True, forbid_unknown_fields=True):
    """An input array. `file`: the node opens `path` itself (same machine, Unix socket only).

    `upload`: the client sends the raw C-order little-endian bytes to `/v1/arrays/{id}/bytes`.
    `fingerprint` names the content as the client knows it, so that equal arrays are shared.
    """

    source: Literal["npy", "raw", "zarr", "safetensors", "upload"]
    dtype: Dtype
    shape: Shape
    fingerprint: Hex64
    path: Path = ""
    member: Text = ""
    offset_bytes: Count = 0


@message("array.info", sender="node", receiver="client", max_bytes=64 * 1024)
class ArrayInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """An array on the node. `stored_bytes` counts what an upload has on disk."""

    array: ArrayIdField
    dtype: Dtype
    shape: Shape
    stored_bytes: Count
    complete: bool
    verified: bool


class OutputSave(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an output goes. `node`: kept on the node. Else a path there.

    `retention`, of what the node keeps: `durable` until the job is deleted; `cache` until the node
    needs the space or nobody has read it for long.
    """

    format: Literal["node", "npy", "zarr", "safetensors"] = "node"
    path: Path = ""
    overwrite: bool = False
    retention: Literal["durable", "cache"] = "durable"


@message("job.submit", sender="client", receiver="node", max_bytes=4 * 1024 * 1024)
class JobSubmit(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph over whole arrays. The node's planner splits it.

    `parent`: the job, by name or id, with which this one is cancelled.
    """

    graph: Annotated[bytes, Meta(max_length=1024 * 1024)]
    inputs: Annotated[tuple[ArrayIdField, ...], Meta(max_length=256)]
    outputs: Annotated[tuple[OutputSave, ...], Meta(max_length=64)]
    name: JobName | None = None
    input_names: Annotated[tuple[Text, ...], Meta(max_length=256)] = ()
    numeric_class: NumericClass = "float32"
    assurance: Assurance = "full"
    executor: Literal["auto", "local", "grid", "ray"] = "auto"
    constraints: Constraints = Constraints()
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    block_axis: Annotated[int, Meta(ge=0, le=7)] | None = None
    force: bool = False
    dry_run: bool = False
    parent: JobName | None = None


@message("job.plan", sender="node", receiver="client", max_bytes=256 * 1024)
class PlanReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The plan and the estimate, before anything starts. Seconds and bytes; `gain` over the lab."""

    kind: Word
    tasks: Count
    tile: Shape
    flops: Count
    verify_flops: Count
    bytes_in: Count
    bytes_out: Count
    memory_bound_bytes: Count
    node_memory_bytes: Count
    estimate_s: Seconds
    alone_s: Seconds
    gain: Annotated[float, Meta(ge=0, le=1e9)]
    executor: Literal["local", "grid", "ray"]


class VerifiedBy(Struct, frozen=True, forbid_unknown_fields=True):
    """How many tasks each method has verified so far."""

    product: Count = 0
    recompute: Count = 0
    equality: Count = 0
    agreement: Count = 0


class LostWork(Struct, frozen=True, forbid_unknown_fields=True):
    """Leases that came to nothing, by cause; each such task was done again."""

    expired: Count = 0
    abandoned: Count = 0
    rejected: Count = 0
    late: Count = 0


class GraphTolerance(Struct, frozen=True, forbid_unknown_fields=True):
    """How far a result of one of a job's graphs may lie from the validator's own, as measured.

    Args:
        middle, largest: in units of the root mean square, over the blocks of all outputs.
        signed: the mean signed error of the device that has the largest, in shares of that.
    """

    graph: GraphHashField
    middle: Annotated[float, Meta(ge=0, le=1)]
    largest: Annotated[float, Meta(ge=0, le=1)]
    signed: Annotated[float, Meta(ge=0, le=1)] = 0.0


@message("job.info", sender="node", receiver="client", max_bytes=256 * 1024)
class JobInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A job as it stands. Progress counts verified tasks."""

    job: JobIdField
    name: JobName
    owner: Text
    state: Literal["planned", "running", "done", "failed", "cancelled"]
    graph: GraphHashField
    content: Hex64
    attached: bool
    tasks: Count
    verified: Count
    used: Count
    leased: Count
    checking: Count
    verified_by: VerifiedBy
    lost: LostWork
    credits: Annotated[float, Meta(ge=0, le=1e18)]
    bytes_sent: Count
    bytes_received: Count
    created_s: Seconds
    started_s: Seconds | None
    finished_s: Seconds | None
    outputs: Annotated[tuple[ArrayInfo, ...], Meta(max_length=64)]
    plan: PlanReply
    error_code: Text = ""
    error_text: Annotated[str, Meta(max_length=4096)] = ""
    tolerances: Annotated[tuple[GraphTolerance, ...], Meta(max_length=64)] = ()


@message("job.list", sender="node", receiver="client", max_bytes=16 * 1024 * 1024)
class JobList(Struct, frozen=True, forbid_unknown_fields=True):
    """The caller's jobs, newest first."""

    jobs: Annotated[tuple[JobInfo, ...], Meta(max_length=1000)]


class JobEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happened to a job; numbered without gaps."""

    number: Count
    at_s: Seconds
    kind: Literal[
        "submitted", "started", "leased", "committed", "verified", "rejected", "expired",
        "abandoned", "used", "done", "failed", "cancelled",
    ]  # fmt: skip
    task_index: Count | None = None
    detail: Text = ""


@message("job.events", sender="node", receiver="client", max_bytes=4 * 1024 * 1024)
class JobEvents(Struct, frozen=True, forbid_unknown_fields=True):
    """Events after a number, in order."""

    events: Annotated[tuple[JobEvent, ...], Meta(max_length=10_000)]


class CertificateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What the node signs: which computation, on what, checked how, by which builds.

    Args:
        arrivals: of a training whose rounds end without late shards: BLAKE3 over the record, the
            mask of each round in order and a line feed; empty otherwise. rounds_short: rounds that
            ended without some.
    """

    node_key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    job: JobIdField
    graph: GraphHashField
    inputs: Annotated[tuple[Hex64, ...], Meta(max_length=256)]
    outputs: Annotated[tuple[Hex64, ...], Meta(max_length=64)]
    numeric_class: NumericClass
    assurance: Assurance
    tasks: Count
    verified_by: VerifiedBy
    engine_builds: Annotated[tuple[Word, ...], Meta(max_length=256)]
    catalog_hash: Hex64
    finished_s: Seconds
    tolerances: Annotated[tuple[GraphTolerance, ...], Meta(max_length=64)] = ()
    arrivals: Annotated[str, Meta(max_length=64)] = ""
    rounds_short: Count = 0


@message("job.certificate", sender="node", receiver="client", max_bytes=256 * 1024)
class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """`signature` is Ed25519 over the deterministic JSON of `body` (see `wire.signing`)."""

    body: CertificateBody
    signature: Signature
