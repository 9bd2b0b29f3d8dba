"""The data of a training: arrays whose rows are examples.

Owns: what may be data, a first look at it, and the example batch that a program is traced with.
Must not: copy a file, or send anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpugoblin.capture.array import Array
from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.expression import INPUT
from gpugoblin.capture.source import FileSource, MemorySource, NodeSource, Source
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import ClientError

__all__ = ["DataSet", "data_set", "memory_source"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Arrays of one length.

    Args:
        sources: where each is. names: what errors call them.
    """

    sources: tuple[Source, ...]
    names: tuple[str, ...]

    @property
    def examples(self) -> int:
        return self.sources[0].spec.shape[0]

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        return tuple(source.spec for source in self.sources)

    def first(self, rows: int, read: Callable[[Source], NumpyArray]) -> list[NumpyArray]:
        """The first `rows` examples of each; `read` reads what is not in this process."""
        found = []
        for source in self.sources:
            whole = source.array if isinstance(source, MemorySource) else read(source)
            found.append(np.ascontiguousarray(whole[:rows]))
        return found


def memory_source(array: NumpyArray, place: Place) -> Source:
    """An array of this process as a source. Raises CaptureError `dtype_refused`."""
    source = memory_value(np.ascontiguousarray(array), place).node.source
    if source is None:
        raise TypeError("numbers in memory became something else than a source")
    return source


def data_set(given: Any, place: Place, name: str = "data") -> DataSet:
    """One array, or several of one length: NumPy, PyTorch, or opened files.

    Raises:
        ClientError: `data_malformed`, `data_not_finite`.
        CaptureError: `dtype_refused`, `not_an_array`.
    """
    parts = list(given) if isinstance(given, tuple | list) else [given]
    if not parts:
        raise _malformed(place, name, "it has no arrays")
    names = tuple(f"{name}[{number}]" if len(parts) > 1 else name for number in range(len(parts)))
    sources = [_source(one, place, label) for one, label in zip(parts, names, strict=True)]
    for source, label in zip(sources, names, strict=True):
        if not source.spec.rank:
            raise _malformed(place, label, f"it is {source.spec}, without an axis of examples")
    lengths = [source.spec.shape[0] for source in sources]
    if len(set(lengths)) > 1:
        told = ", ".join(f"{label} has {n}" for label, n in zip(names, lengths, strict=True))
        raise _malformed(place, name, f"its arrays have different numbers of examples ({told})")
    for source, label in zip(sources, names, strict=True):
        _require_finite(source, place, label)
    return DataSet(tuple(sources), names)


def _source(given: Any, place: Place, label: str) -> Source:
    if isinstance(given, Array):
        node = given.value.node
        if node.operator == INPUT and isinstance(node.source, FileSource | MemorySource):
            return node.source
        if node.operator == INPUT and isinstance(node.source, NodeSource) and node.source.address:
            return node.source
        raise _malformed(place, label, "it is a lazy array that has not been computed")
    if hasattr(given, "detach"):
        from gpugoblin.capture.torch.library import numpy_of

        given = numpy_of(given)
    array = np.asarray(given)
    if not array.ndim:
        raise _malformed(place, label, "it is one number, without an axis of examples")
    return memory_source(array, place)


def _require_finite(source: Source, place: Place, label: str) -> None:
    """What is in this process is looked at before anything is sent."""
    if not isinstance(source, MemorySource) or source.array.dtype.kind != "f":
        return
    rows = max(1, (1 << 22) // max(1, source.array[:1].size))
    for first in range(0, source.array.shape[0], rows):
        part = np.isfinite(source.array[first : first + rows])
        if not part.all():
            bad = first + int(np.argmin(part.reshape(part.shape[0], -1).all(axis=1)))
            raise ClientError("data_not_finite", line=place, name=label, example=bad)


def _malformed(place: Place, name: str, reason: str) -> ClientError:
    return ClientError("data_malformed", line=place, name=name, reason=reason)
