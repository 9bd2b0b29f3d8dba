"""From lazy arrays to a submission: inputs on the node, outputs with a place, one message.

Owns: the upload of inputs (resumable, in pieces), the choice of format from a path, and the
`job.submit` message. Must not: wait for a job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import numpy as np

from gpugoblin.capture.hashing import fingerprint_array, pieces
from gpugoblin.capture.lower import Lowered
from gpugoblin.capture.runner import PathLike, SubmitOptions
from gpugoblin.capture.source import FileSource, MemorySource, NodeSource, Source
from gpugoblin.catalog.spec import DTYPES, FLOATS
from gpugoblin.client.opening import refresh
from gpugoblin.errors import ClientError, GoblinError, StoreError
from gpugoblin.graph.serialize import encode
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import ArrayId
from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobSubmit, OutputSave
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.transport import Transport

__all__ = ["Target", "input_array", "input_arrays", "submission", "target"]

UPLOAD_BYTES: Final = 4 * 1024 * 1024
_NAME_BYTES: Final = 1024

Format = Literal["node", "npy", "zarr", "safetensors"]
_SUFFIXES: Final[dict[str, Format]] = {
    ".npy": "npy",
    ".zarr": "zarr",
    ".safetensors": "safetensors",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a result goes: a format, and an absolute path unless the node keeps it."""

    format: Format = "node"
    path: str = ""

    def save(self, overwrite: bool, retention: str = "durable") -> OutputSave:
        """What the node is told.

        Raises:
            ClientError: `option_refused`: there is no such retention.
        """
        fields = {
            "format": self.format, "path": self.path, "overwrite": overwrite,
            "retention": retention,
        }  # fmt: skip
        try:
            return msgspec.convert(fields, OutputSave)
        except msgspec.ValidationError as cause:
            raise ClientError("option_refused", reason=str(cause)) from cause


def target(path: PathLike | None) -> Target:
    """The target that a path names.

    Raises:
        ClientError: `target_malformed`.
    """
    if path is None:
        return Target()
    absolute = os.path.abspath(os.path.expanduser(path))
    kind = _SUFFIXES.get(os.path.splitext(absolute)[1])
    if kind is None:
        raise ClientError(
            "target_malformed",
            path=os.fspath(path),
            reason="its ending is not .npy, .zarr or .safetensors",
        )
    parent = os.path.dirname(absolute)
    if not os.path.isdir(parent):
        raise ClientError(
            "target_malformed", path=os.fspath(path), reason=f"there is no directory {parent}"
        )
    return Target(kind, absolute)


def input_arrays(lowered: Lowered, transport: Transport) -> tuple[ArrayId, ...]:
    """Makes every input known to the node, uploading what it cannot open itself.

    Raises:
        StoreError: `file_changed` and what keeps a file from being read.
        ClientError: `array_changed`, `array_elsewhere`, or what keeps the node from being reached.
        RemoteError: the node refuses an array.
    """
    return tuple(input_array(source, transport) for source in lowered.sources)


def submission(
    lowered: Lowered,
    inputs: tuple[ArrayId, ...],
    outputs: tuple[OutputSave, ...],
    options: SubmitOptions,
    block_axis: int | None,
) -> JobSubmit:
    """The message. Without a name, the job is named by its content, so that it is found again.

    Raises:
        ClientError: `option_refused` for an option that the message does not allow.
    """
    graph = encode(lowered.graph)
    fields: dict[str, Any] = {
        "graph": graph,
        "inputs": inputs,
        "outputs": outputs,
        "name": options.get("name") or _content_name(graph, lowered, outputs),
        "input_names": tuple(_clipped(name) for name in lowered.names.inputs),
        "numeric_class": options.get("numeric_class") or _numeric_class(lowered),
        "assurance": options.get("assurance", "full"),
        "executor": options.get("executor", "auto"),
        "constraints": options.get("where") or Constraints(),
        "priority": options.get("priority", 0),
        "block_axis": block_axis,
        "force": options.get("force", False),
        "parent": options.get("parent"),
    }
    try:
        return msgspec.convert(fields, JobSubmit)
    except msgspec.ValidationError as cause:
        raise ClientError("option_refused", reason=str(cause)) from cause


def input_array(source: Source, transport: Transport) -> ArrayId:
    """Makes one input known to the node. Raises as `input_arrays`."""
    address = transport.endpoint.address
    if isinstance(source, NodeSource):
        if source.address != address:
            raise ClientError(
                "array_elsewhere", line=source.place, there=source.address, here=address
            )
        return ArrayId(source.array_id)
    if isinstance(source, MemorySource):
        if fingerprint_array(source.array) != source.fingerprint:
            raise ClientError("array_changed", line=source.place)
        return _upload(source, pieces(source.array, UPLOAD_BYTES), transport)
    refresh(source)
    if not transport.endpoint.socket_path:
        return _upload(source, _file_pieces(source), transport)
    create = ArrayCreate(
        source=source.kind,
        dtype=source.spec.dtype,  # type: ignore[arg-type]  # of the catalog, by construction
        shape=source.spec.shape,
        fingerprint=source.fingerprint,
        path=source.path,
        member=source.member,
        offset_bytes=source.offset_bytes,
    )
    try:
        return transport.call("POST", "/v1/arrays", ArrayInfo, body=create, repeatable=True).array
    except GoblinError as refused:
        if refused.code != "file_not_local":
            raise
        return _upload(source, _file_pieces(source), transport)


def _upload(
    source: MemorySource | FileSource, data: Iterator[memoryview | bytes], transport: Transport
) -> ArrayId:
    """Sends what the node does not have yet. Made known twice, an array is still one."""
    create = ArrayCreate(
        source="upload",
        dtype=source.spec.dtype,  # type: ignore[arg-type]  # of the catalog, by construction
        shape=source.spec.shape,
        fingerprint=source.fingerprint,
    )
    info = transport.call("POST", "/v1/arrays", ArrayInfo, body=create, repeatable=True)
    offset = 0
    for piece in data:
        end = offset + len(piece)
        if not info.complete and end > info.stored_bytes:
            skipped = info.stored_bytes - offset
            info = transport.upload(
                f"/v1/arrays/{info.array}/bytes",
                bytes(piece[skipped:]),
                ArrayInfo,
                query={"offset": info.stored_bytes},
            )
        offset = end
    return info.array


def _file_pieces(source: FileSource) -> Iterator[memoryview | bytes]:
    """The C-order bytes of an array in a file."""
    if source.kind == "zarr":
        yield from _zarr_pieces(source)
        return
    offset_bytes = source.offset_bytes
    if source.kind == "npy":
        from gpugoblin.client.headers import read_npy

        offset_bytes = read_npy(source.path).offset_bytes
    left = source.spec.nbytes
    with open(source.path, "rb") as file:
        file.seek(offset_bytes)
        while left:
            piece = file.read(min(left, UPLOAD_BYTES))
            if not piece:
                raise StoreError("file_changed", path=source.path)
            left -= len(piece)
            yield piece


def _zarr_pieces(source: FileSource) -> Iterator[memoryview]:
    try:
        import zarr
    except ImportError as cause:
        raise ClientError(
            "package_missing", purpose="Sending a zarr array to another machine", package="zarr"
        ) from cause
    array = zarr.open_array(source.path, mode="r")
    shape = source.spec.shape
    if not shape:
        yield from pieces(np.asarray(array[...], DTYPES[source.spec.dtype]), UPLOAD_BYTES)
        return
    rows = max(1, UPLOAD_BYTES * shape[0] // max(1, source.spec.nbytes))
    for row in range(0, shape[0], rows):
        block = np.ascontiguousarray(array[row : row + rows], DTYPES[source.spec.dtype])
        yield from pieces(block, UPLOAD_BYTES)


def _numeric_class(lowered: Lowered) -> str:
    """`exact` where nothing is computed with floats, else `float32`."""
    return "float32" if any(s.dtype in FLOATS for s in lowered.graph.specs()) else "exact"


def _content_name(graph: bytes, lowered: Lowered, outputs: Sequence[OutputSave]) -> str:
    parts = [graph, *(source.fingerprint.encode() for source in lowered.sources)]
    parts += [f"{output.format}\0{output.path}".encode() for output in outputs]
    framed = [part for item in parts for part in (len(item).to_bytes(8, "little"), item)]
    return f"unnamed-{digest(JOB, framed)[:12]}"


def _clipped(name: str) -> str:
    return name if len(name) <= _NAME_BYTES else "..." + name[3 - _NAME_BYTES :]
