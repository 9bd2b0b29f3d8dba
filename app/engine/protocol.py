"""The words between an engine and its parent, and the order in which they may come.

Owns: the 32-byte header, the messages, their bounds, and one state machine a direction. Must not:
do I/O, start anything, or import more than msgspec and the leaf helpers: both ends load it.

A message is one SOCK_SEQPACKET datagram of at most 16 KiB: header, then a JSON body. Tensors never
travel here; a body names slots of the two arenas by offset and size. The number of a task is the
parent's own counter: no name, hash or id of the outside world reaches the engine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import EngineError
from gpugoblin.units import MIB

__all__ = [
    "AT_ONCE",
    "BODY_BYTES",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "INLINE_GRAPH_BYTES",
    "LOG_PER_S",
    "MOST_KERNELS",
    "PROGRESS_PER_S",
    "QUEUE_LIMIT",
    "VERSION",
    "Cancel",
    "Done",
    "Dtype",
    "Export",
    "Exported",
    "Failed",
    "FailureCode",
    "Frame",
    "Log",
    "Lost",
    "Message",
    "NumericClass",
    "Ping",
    "Place",
    "Pong",
    "Prepare",
    "Prepared",
    "Progress",
    "Ready",
    "RefusalCode",
    "Refused",
    "Run",
    "decode",
    "encode",
    "overhead_bytes",
]

FRAME_BYTES: Final = 16 * 1024
HEADER: Final = struct.Struct("<4sHHIIQQ")
HEADER_BYTES: Final = HEADER.size
BODY_BYTES: Final = FRAME_BYTES - HEADER_BYTES
MAGIC: Final = b"GGe1"
VERSION: Final = 1
INLINE_GRAPH_BYTES: Final = 2048
QUEUE_LIMIT: Final = 4
LOG_PER_S: Final = 20
PROGRESS_PER_S: Final = 10


DRIVER_BYTES: Final = 768 * MIB
"""Private memory of a card's driver in the process: its compiler, its threads, staging."""


def overhead_bytes(threads: int, backend: str = "cpu") -> int:
    """Private memory that an engine takes beside its tasks: interpreter, NumPy, BLAS buffers."""
    driver_bytes = 0 if backend == "cpu" else DRIVER_BYTES
    return 128 * MIB + threads * 64 * MIB + driver_bytes


Bytes62 = Annotated[int, Meta(ge=0, le=2**62)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Word = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_.@+:-]+\Z")]
Hex64 = Annotated[str, Meta(min_length=64, max_length=64, pattern=r"\A[0-9a-f]{64}\Z")]
Text200 = Annotated[str, Meta(max_length=200, pattern=r"\A[ -~]*\Z")]
Finite = Annotated[float, Meta(ge=0, le=1e9)]

Dtype = Literal[
    "float32", "int32", "int64", "bool", "int8", "int16", "uint8", "float16", "bfloat16", "float64"
]
DtypeNames = Annotated[tuple[Dtype, ...], Meta(max_length=16)]
NumericClass = Literal["exact", "float32", "tf32", "bfloat16", "float16", "int8"]

MOST_KERNELS: Final = 64
KernelName = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
"""The first half of the hash of a kernel's words."""
KernelNames = Annotated[tuple[KernelName, ...], Meta(max_length=MOST_KERNELS)]

RefusalCode = Literal["does_not_fit", "graph_malformed", "class_unsupported", "slot_mismatch"]
FailureCode = Literal[
    "index_out_of_range", "out_of_memory", "cancelled", "arithmetic", "kernel_failed"
]


AT_ONCE: Final = "at_once"
"""Detail of `does_not_fit`: the card gives no single piece of `needed_bytes`."""


class Place(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A stretch of an arena: bytes `offset` to `offset + nbytes`."""

    offset: Bytes62
    nbytes: Bytes62


class Ready(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: first message, once. `walls` is what the self-test inside the sandbox found.

    The last four are `gpugoblin.graph.dtypes.Dtypes`, each sorted.
    """

    build: Word
    driver: Word
    backend: Word
    catalog_hash: Hex64
    kernel_set: Hex64
    threads: Annotated[int, Meta(ge=1, le=4096)]
    walls: Annotated[dict[Word, bool | int | Word], Meta(max_length=64)]
    dtypes: DtypeNames = ()
    arithmetic: DtypeNames = ()
    convolutions: DtypeNames = ()
    classes: Annotated[tuple[NumericClass, ...], Meta(max_length=8)] = ()


class Run(Struct, frozen=True, forbid_unknown_fields=True):
    """Parent: evaluate a graph. Its canonical bytes are `graph`, or lie at `graph_place`."""

    numeric_class: NumericClass
    inputs: Annotated[tuple[Place, ...], Meta(max_length=256)]
    outputs: Annotated[tuple[Place, ...], Meta(max_length=256)]
    graph: Annotated[bytes, Meta(max_length=INLINE_GRAPH_BYTES)] = b""
    graph_place: Place | None = None


class Prepare(Struct, frozen=True, forbid_unknown_fields=True):
    """Parent, at most once and before the first task: what is known of this card's kernels.

    `refused` are not to be run, `alone` one at a time; `compiled` lies in the arena of inputs: what
    an engine that warmed up has exported.
    """

    refused: KernelNames = ()
    alone: KernelNames = ()
    compiled: Place | None = None


class Prepared(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the answer to `Prepare`. `accepted`: the driver takes what was compiled."""

    accepted: bool


class Export(Struct, frozen=True, forbid_unknown_fields=True):
    """Parent, of an engine that warms up and has no task: put what was compiled at this place of
    the arena of outputs."""

    place: Place


class Exported(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the answer to `Export`; 0 where there is nothing, or no room for it."""

    nbytes: Bytes62


class Lost(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine, its last word: the card is gone, while these kernels ran."""

    kernels: KernelNames = ()


class Cancel(Struct, frozen=True, forbid_unknown_fields=True):
    """Parent: stop the task of the header as soon as a block ends. It still gets its answer."""


class Ping(Struct, frozen=True, forbid_unknown_fields=True):
    """Parent: are you there? Answered by `Pong` with the same token, one at a time."""

    token: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Pong(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the answer to `Ping`."""

    token: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Done(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the outputs of the task lie in their slots."""

    compute_s: Finite
    peak_memory_bytes: Bytes62


class Refused(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the task was not begun. `needed_bytes` beside `does_not_fit`, `detail` a code."""

    code: RefusalCode
    needed_bytes: Bytes62 = 0
    detail: Word = "none"


class Failed(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: the task was begun and ended without result, at node `node` of its graph.

    `values` beside `index_out_of_range`: the index, the axis and its extent.
    """

    code: FailureCode
    node: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    detail: Word = "none"
    values: Annotated[tuple[Int64, ...], Meta(max_length=4)] = ()


class Log(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: printable ASCII, at most 200 characters, at most 20 a second."""

    text: Text200


class Progress(Struct, frozen=True, forbid_unknown_fields=True):
    """Engine: share of the running task that is done, at most 10 a second."""

    fraction: Annotated[float, Meta(ge=0, le=1)]


Message = (
    Ready | Run | Cancel | Ping | Pong | Done | Refused | Failed | Log | Progress
    | Prepare | Prepared | Export | Exported | Lost
)  # fmt: skip

_TYPES: Final[tuple[type[Message], ...]] = (
    Ready,
    Run,
    Cancel,
    Ping,
    Pong,
    Done,
    Refused,
    Failed,
    Log,
    Progress,
    Prepare,
    Prepared,
    Export,
    Exported,
    Lost,
)
_NUMBERS: Final = {kind: number for number, kind in enumerate(_TYPES, start=1)}
_DECODERS: Final = {
    number: msgspec.json.Decoder(kind, strict=True) for kind, number in _NUMBERS.items()
}
_encoder: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded message with what its header says. `task` is 0 where no task is meant."""

    sequence: int
    task: int
    message: Message


def encode(message: Message, sequence: int, task: int = 0) -> bytes:
    """The datagram of a message.

    Raises:
        EngineError: `engine_message_too_large`.
    """
    body = _encoder.encode(message)
    if len(body) > BODY_BYTES:
        raise EngineError("engine_message_too_large", size=len(body), limit=BODY_BYTES)
    number = _NUMBERS[type(message)]
    return HEADER.pack(MAGIC, VERSION, number, 0, len(body), sequence, task) + body


def _malformed(reason: str) -> EngineError:
    return EngineError("engine_message_malformed", reason=reason)


def decode(datagram: bytes) -> Frame:
    """A message from one datagram.

    Raises:
        EngineError: `engine_message_too_large`, `engine_message_malformed`.
    """
    if len(datagram) > FRAME_BYTES:
        raise EngineError("engine_message_too_large", size=len(datagram), limit=FRAME_BYTES)
    if len(datagram) < HEADER_BYTES:
        raise _malformed(f"{len(datagram)} bytes are no header")
    magic, version, number, flags, length, sequence, task = HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION or flags != 0:
        raise _malformed("magic, version or flags are not of this protocol")
    if length != len(datagram) - HEADER_BYTES:
        raise _malformed(f"the header says {length} bytes of body, {len(datagram)} came in all")
    decoder = _DECODERS.get(number)
    if decoder is None:
        raise _malformed(f"there is no message type {number}")
    try:
        message: Message = decoder.decode(memoryview(datagram)[HEADER_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise _malformed(str(cause)[:200]) from cause
    return Frame(sequence, task, message)
