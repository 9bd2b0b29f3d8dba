"""The result of a job, read lazily from the node.

Owns: `ResultArray`, whose parts can be read as soon as they are verified, and its download to a
file. Must not: hold more of it than was asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from typing import IO, Any, Final

import numpy as np

from gpugoblin.capture.array import Array, from_source
from gpugoblin.capture.caller import caller
from gpugoblin.capture.source import NodeSource
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.client.regions import PIECE_BYTES, Box, boxes, read_box, resolve
from gpugoblin.client.submitting import Target
from gpugoblin.errors import ClientError, StoreError
from gpugoblin.hashing import JOB, digest
from gpugoblin.wire.messages.job import ArrayInfo
from gpugoblin.wire.transport import Transport

__all__ = ["ResultArray"]

_SAFETENSORS_DTYPE: Final = {
    "float32": "F32",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "uint8": "U8",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F64",
}


class ResultArray:
    """An output of a job, on the node. Indexing reads numbers; unverified ones are refused.

    Args:
        transport: to the node that has it.
        info: what the node says about it.
        label: for people.
        content: names the job's content, 64 hexadecimal digits.
        output: which output of the job it is.
    """

    def __init__(
        self, transport: Transport, info: ArrayInfo, label: str, content: str, output: int
    ) -> None:
        self._transport = transport
        self._info = info
        self._label = label
        self._fingerprint = digest(JOB, (content.encode(), str(output).encode()))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._info.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self._info.dtype, self._info.shape)

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    def __getitem__(self, index: object) -> Any:
        """The numbers of a part, as an ndarray (a NumPy scalar where all axes are indexed).

        Raises:
            RemoteError: `region_not_verified` while a task that covers the part is not verified.
            ClientError: `region_malformed`.
        """
        box, inner = resolve(self.shape, index)
        return read_box(box, self.dtype, self._fetch)[inner]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        whole = read_box(self._whole, self.dtype, self._fetch)
        return whole if dtype is None else whole.astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a result of shape ()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<result {self.spec} of job {self._label!r}>"

    def numpy(self) -> NumpyArray:
        """All of it. Raises as indexing does."""
        return read_box(self._whole, self.dtype, self._fetch)

    def lazy(self) -> Array:
        """A lazy array over it, for the next computation on the same node."""
        source = NodeSource(
            array_id=self._info.array,
            address=self._transport.endpoint.address,
            spec=self.spec,
            fingerprint=self._fingerprint,
            label=self._label,
            place=caller(),
        )
        return from_source(source)

    def download(self, target: Target, overwrite: bool) -> None:
        """Writes all of it to a file of this machine, piece by piece; whole or not at all.

        Raises:
            StoreError: `file_unwritable` when the file is there, or the disk is full.
            ClientError: `package_missing` for zarr without the package.
        """
        if os.path.lexists(target.path) and not overwrite:
            raise StoreError("file_unwritable", path=target.path, reason="it is there already")
        partial = f"{target.path}.part"
        try:
            self._write(partial, target.format)
            if os.path.isdir(target.path):
                shutil.rmtree(target.path)
            os.replace(partial, target.path)
        except OSError as cause:
            if isinstance(cause, StoreError):
                raise
            reason = cause.strerror or str(cause)
            raise StoreError("file_unwritable", path=target.path, reason=reason) from cause
        finally:
            _remove(partial)

    def _write(self, path: str, kind: str) -> None:
        if kind == "zarr":
            self._download_zarr(path)
            return
        with open(path, "wb") as file:
            self._write_flat(file, kind)
            file.flush()
            os.fsync(file.fileno())

    def _write_flat(self, file: IO[bytes], kind: str) -> None:
        if kind == "npy":
            fields = {
                "descr": np.lib.format.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": self.shape,
            }
            np.lib.format.write_array_header_1_0(file, fields)
        else:
            entry = {
                "dtype": _SAFETENSORS_DTYPE[self._info.dtype],
                "shape": list(self.shape),
                "data_offsets": [0, self.nbytes],
            }
            header = json.dumps({"output": entry}).encode()
            header += b" " * (-len(header) % 8)
            file.write(len(header).to_bytes(8, "little") + header)
        for part, _ in self._parts():
            file.write(part.reshape(-1).view(np.uint8).data)

    def _download_zarr(self, path: str) -> None:
        try:
            import zarr
        except ImportError as cause:
            raise ClientError(
                "package_missing", purpose="Writing zarr on this machine", package="zarr"
            ) from cause
        chunks = tuple(max(1, min(extent, 1024)) for extent in self.shape)
        array = zarr.create_array(
            store=path, shape=self.shape, dtype=self.dtype, chunks=chunks, overwrite=True
        )
        for part, place in self._parts():
            array[place] = part

    def _parts(self) -> Iterator[tuple[NumpyArray, tuple[slice, ...]]]:
        """All of it in C order, in pieces of a few MiB."""
        for first, last in boxes(self._whole, self.dtype.itemsize, PIECE_BYTES):
            place = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
            yield read_box((first, last), self.dtype, self._fetch), place

    @property
    def _whole(self) -> Box:
        return (0,) * self.ndim, self.shape

    def _fetch(self, start: tuple[int, ...], stop: tuple[int, ...], into: memoryview) -> None:
        self._transport.download(
            f"/v1/arrays/{self._info.array}/region",
            into,
            query={"start": ",".join(map(str, start)), "stop": ",".join(map(str, stop))},
        )


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
