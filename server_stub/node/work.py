"""Work items between the node's service and its workers.

Owns: the messages over the socket pair of a worker process. The service never touches an array;
everything that reads, hashes, checks, computes or writes tensor bytes is one of these items.
Items are idempotent: after a crash the service simply sends them again.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "ArrayFile",
    "Begun",
    "BlobInput",
    "BlobOutput",
    "Box",
    "Check",
    "Checked",
    "Compare",
    "Compute",
    "Computed",
    "Describe",
    "Described",
    "Failed",
    "Fold",
    "Folded",
    "Prepare",
    "Prepared",
    "Recompute",
    "RegionInput",
    "RegionOutput",
    "Reply",
    "Told",
    "Work",
]


class Box(Struct, frozen=True, forbid_unknown_fields=True):
    """A region of an array: `start` included, `stop` not.

    With `rows`: those rows of axis 0 in that order; `start` and `stop` are then the box of what is
    picked, whose other axes are whole.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    rows: tuple[int, ...] = ()


class ArrayFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An array on the node's disk. `raw` is C-order little-endian bytes from `offset_bytes` on."""

    kind: Literal["npy", "raw", "zarr", "safetensors"]
    path: str
    dtype: str
    shape: tuple[int, ...]
    member: str = ""
    offset_bytes: int = 0


class RegionInput(Struct, frozen=True, forbid_unknown_fields=True, tag="region"):
    """Input bytes are a box of an array. `blob` is its hash where it is known already."""

    array: ArrayFile
    box: Box
    blob: str = ""


class BlobInput(Struct, frozen=True, forbid_unknown_fields=True, tag="blob"):
    """Input bytes are a blob of the node's store."""

    blob: str
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


class RegionOutput(Struct, frozen=True, forbid_unknown_fields=True, tag="region"):
    """The output is written into a box of a result array, synced before the answer."""

    array: ArrayFile
    box: Box
    dtype: str
    shape: tuple[int, ...]


class BlobOutput(Struct, frozen=True, forbid_unknown_fields=True, tag="blob"):
    """The output is kept as a blob of the node's store."""

    dtype: str
    shape: tuple[int, ...]


Input = RegionInput | BlobInput
Output = RegionOutput | BlobOutput


class Describe(Struct, frozen=True, forbid_unknown_fields=True, tag="describe"):
    """Open an array file and say what it is; refuse what is unreadable or truncated."""

    work: str
    kind: Literal["npy", "zarr", "safetensors", "raw"]
    path: str
    member: str = ""


class Described(Struct, frozen=True, forbid_unknown_fields=True, tag="described"):
    work: str
    array: ArrayFile


class Prepare(Struct, frozen=True, forbid_unknown_fields=True, tag="prepare"):
    """Pack and hash a box of an array. `store`: keep the packed bytes as a blob (for the grid)."""

    work: str
    source: RegionInput
    store: bool


class Prepared(Struct, frozen=True, forbid_unknown_fields=True, tag="prepared"):
    work: str
    blob: str
    nbytes: int


class Compute(Struct, frozen=True, forbid_unknown_fields=True, tag="compute"):
    """Local executor: run a task in this worker's engine, commit, check, write.

    `verify == "product"`: the worker checks the result itself and writes it to `outputs`.
    Otherwise the outputs are kept as blobs and the service has them recomputed.
    """

    work: str
    graph: bytes
    numeric_class: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    verify: Literal["product", "recompute", "equality", "agreement"]
    memory_bound_bytes: int
    flops: int


class Computed(Struct, frozen=True, forbid_unknown_fields=True, tag="computed"):
    """`verified` is true only when the product check passed and the bytes are on disk.

    `code` names the refusal where the check failed. `input_blobs`: hashes as read, per input.
    """

    work: str
    input_blobs: tuple[str, ...]
    output_blobs: tuple[str, ...]
    output_nbytes: tuple[int, ...]
    verified: bool
    code: str
    engine_build: str
    driver: str
    kernel_set: str
    sandbox_level: str
    compute_s: float
    peak_memory_bytes: int


class Check(Struct, frozen=True, forbid_unknown_fields=True, tag="check"):
    """Product check of uploaded outputs against trusted inputs; secrets are drawn in the worker.

    With `fold` set, accepted outputs are written to `outputs` and synced before the answer.
    """

    work: str
    graph: bytes
    numeric_class: str
    inputs: tuple[Input, ...]
    committed: tuple[BlobInput, ...]
    outputs: tuple[Output, ...]
    fold: bool


class Recompute(Struct, frozen=True, forbid_unknown_fields=True, tag="recompute"):
    """The validator computes the task itself and compares. With `committed` empty it only computes.

    With `fold` set, accepted outputs (or, after a rejection, the validator's own, when `repair`)
    are written to `outputs`. `tolerance`: what was measured for this graph of the job
    (`gpugoblin.verify.spread`). `secret`, `bias`: directions of signed errors, and what is known of
    those of the result's device (`gpugoblin.verify.bias`); no secret: they are not looked at.
    """

    work: str
    graph: bytes
    numeric_class: str
    inputs: tuple[Input, ...]
    committed: tuple[BlobInput, ...]
    outputs: tuple[Output, ...]
    fold: bool
    repair: bool
    memory_bound_bytes: int
    flops: int
    tolerance: tuple[tuple[float, ...], ...] = ()
    secret: str = ""
    bias: tuple[float, ...] = ()


class Compare(Struct, frozen=True, forbid_unknown_fields=True, tag="compare"):
    """Agreement of two independent results within the tolerance of the graph.

    The tolerance comes from `inputs`; without them only equal results agree.
    """

    work: str
    graph: bytes
    numeric_class: str
    first: tuple[BlobInput, ...]
    second: tuple[BlobInput, ...]
    flops: int
    inputs: tuple[Input, ...] = ()
    tolerance: tuple[tuple[float, ...], ...] = ()


class Checked(Struct, frozen=True, forbid_unknown_fields=True, tag="checked"):
    """A verdict. `error` and `threshold` in the same unit; `own_blobs` after a repair.

    `tolerance`: what was measured for the graph, where something was. `signed`: the projections of
    a result that was held against the validator's own and is not equal to it.
    """

    work: str
    accepted: bool
    code: str
    error: float
    threshold: float
    own_blobs: tuple[str, ...] = ()
    engine_build: str = ""
    tolerance: tuple[tuple[float, ...], ...] = ()
    signed: tuple[float, ...] = ()


class Fold(Struct, frozen=True, forbid_unknown_fields=True, tag="fold"):
    """Write verified blobs into their result regions and sync."""

    work: str
    committed: tuple[BlobInput, ...]
    outputs: tuple[Output, ...]


class Folded(Struct, frozen=True, forbid_unknown_fields=True, tag="folded"):
    work: str


class Failed(Struct, frozen=True, forbid_unknown_fields=True, tag="failed"):
    """The item could not be done: a `GoblinError` with its fields as text."""

    work: str
    family: str
    code: str
    fields: dict[str, str]


class Begun(Struct, frozen=True, forbid_unknown_fields=True, tag="begun"):
    """The worker starts with this item now; its answer comes later."""

    work: str


Work = Describe | Prepare | Compute | Check | Recompute | Compare | Fold
Reply = Described | Prepared | Computed | Checked | Folded | Failed
Told = Reply | Begun
"""All that a worker says."""
