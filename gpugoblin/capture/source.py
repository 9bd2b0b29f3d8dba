"""Where the numbers of a lazy array will come from.

Owns: the kinds of source and their fingerprints' form. Must not: open a file or speak to a
node; `gpugoblin.client` does both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpugoblin.capture.caller import NOWHERE, Place
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.catalog.spec import TensorSpec

__all__ = ["FileSource", "MemorySource", "NodeSource", "Source"]


@dataclass(frozen=True, slots=True)
class FileSource:
    """An array in a file of this machine, of which only the header has been read.

    Args:
        kind: `raw` is C-order little-endian bytes from `offset_bytes` on.
        path: absolute, links resolved.
        member: the tensor's name inside a safetensors file, or the path inside a zarr group.
        fingerprint: 64 hexadecimal digits that change when the file does.
    """

    kind: Literal["npy", "raw", "zarr", "safetensors"]
    path: str
    spec: TensorSpec
    fingerprint: str
    member: str = ""
    offset_bytes: int = 0
    place: Place = NOWHERE

    @property
    def name(self) -> str:
        return f"{self.path}#{self.member}" if self.member else self.path


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource:
    """An array in this process; `fingerprint` is the hash of its content when it was given."""

    array: NumpyArray
    spec: TensorSpec
    fingerprint: str
    place: Place = NOWHERE

    @property
    def name(self) -> str:
        return f"array at {self.place.short}"


@dataclass(frozen=True, slots=True)
class NodeSource:
    """An array that the lab node `address` has: the output of a finished job. Without an address
    it stands for a value while a graph is made of what follows from it, and no node takes it."""

    array_id: str
    address: str
    spec: TensorSpec
    fingerprint: str
    label: str = ""
    place: Place = NOWHERE

    @property
    def name(self) -> str:
        return self.label or self.array_id


Source = FileSource | MemorySource | NodeSource
