"""The bytes in which the child tells what it found. Owns: that form, without pickle."""

from __future__ import annotations

import msgspec
import numpy as np

from gpugoblin.capture.caller import Place
from gpugoblin.capture.torch.ladder import Climbed
from gpugoblin.capture.torch.lowering import Input
from gpugoblin.capture.torch.program import Captured
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import CaptureError, GoblinError
from gpugoblin.graph.serialize import decode, encode

__all__ = [
    "ArrayBytes",
    "Refusal",
    "from_array",
    "read_capture",
    "refusal",
    "to_array",
    "write_capture",
]


class ArrayBytes(msgspec.Struct, frozen=True):
    """An ndarray."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Refusal(msgspec.Struct, frozen=True):
    """An error: its code, and its fields as text."""

    code: str
    fields: dict[str, str]


class _Input(msgspec.Struct, frozen=True):
    kind: str
    name: str
    part: str
    data: ArrayBytes | None


class _Answer(msgspec.Struct, frozen=True):
    """A capture, or why there is none."""

    refusal: Refusal | None = None
    graph: bytes = b""
    inputs: tuple[_Input, ...] = ()
    outputs: tuple[int, ...] = ()
    updates: tuple[str, ...] = ()
    lines: dict[int, tuple[str, int]] = {}
    rung: str = ""
    difference: float | None = None
    refused: tuple[str, ...] = ()
    backwards: tuple[str, ...] = ()


def from_array(array: Array) -> ArrayBytes:
    return ArrayBytes(array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes())


def to_array(given: ArrayBytes) -> Array:
    return np.frombuffer(given.data, np.dtype(given.dtype)).reshape(given.shape)


def refusal(error: GoblinError) -> Refusal:
    return Refusal(error.code, {name: str(value) for name, value in error.fields.items()})


def write_capture(found: Climbed | CaptureError) -> bytes:
    if isinstance(found, CaptureError):
        return msgspec.msgpack.encode(_Answer(refusal=refusal(found)))
    lowered = found.lowered
    answer = _Answer(
        graph=encode(lowered.graph),
        inputs=tuple(
            _Input(one.kind, one.name, one.part, None if one.data is None else from_array(one.data))
            for one in lowered.inputs
        ),
        outputs=lowered.outputs,
        updates=lowered.updates,
        lines={value: (place.file, place.line) for value, place in lowered.lines.items()},
        rung=found.rung,
        difference=found.difference,
        refused=found.refused,
        backwards=lowered.refused,
    )
    return msgspec.msgpack.encode(answer)


def read_capture(data: bytes, label: str) -> Captured:
    """The capture that `write_capture` wrote.

    Raises:
        CaptureError: the refusal that it holds instead.
        GraphError: its graph is not well-formed.
    """
    answer = msgspec.msgpack.decode(data, type=_Answer)
    if answer.refusal is not None:
        raise CaptureError(answer.refusal.code, **answer.refusal.fields)
    return Captured(
        graph=decode(answer.graph),
        inputs=tuple(
            Input(one.kind, one.name, one.part, None if one.data is None else to_array(one.data))
            for one in answer.inputs
        ),
        outputs=answer.outputs,
        updates=answer.updates,
        lines={value: Place(file, line) for value, (file, line) in answer.lines.items()},
        rung=answer.rung,
        difference=answer.difference,
        refused=answer.refused,
        backwards=answer.backwards,
        label=label,
    )
