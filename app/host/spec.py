"""What a parent says to its engine handle and what it hears from it.

Owns: the data of `app.host.engine`. Must not: start, read or write anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.engine.protocol import Dtype, NumericClass
from app.host.arena import Slot
from app.sandbox.spec import NO_CARD, CardAccess, EngineLaunch, Level, Runtime
from gpugoblin.errors import EngineError, GoblinError
from gpugoblin.units import MIB

__all__ = [
    "Died",
    "Done",
    "EngineTask",
    "Event",
    "Exported",
    "Failed",
    "HostSpec",
    "Launcher",
    "Log",
    "Pong",
    "Prepared",
    "Process",
    "Progress",
    "Ready",
    "Refused",
]


class Process(Protocol):
    """A started engine, at whatever level."""

    @property
    def level(self) -> Level: ...

    @property
    def engine_pid(self) -> int:
        """The process that computes, as this process sees it."""
        ...

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process has ended."""
        ...

    def stderr_tail(self) -> str: ...

    def attest(self) -> object:
        """Proves the walls from outside; raises SandboxError where they do not stand."""
        ...

    def kill(self) -> None: ...

    def wait(self, timeout_s: float) -> int | None:
        """Reaps: the exit status, or None if it still runs after `timeout_s`."""
        ...


Launcher = Callable[[EngineLaunch], Process]


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One engine that is wanted.

    Args:
        backend: `cpu`, `vulkan` for the first card, or `vulkan:UUID`.
        memory_bytes: private memory for the arena and the scratch space of one task. What
            interpreter and BLAS take themselves comes on top (`protocol.overhead_bytes`).
        start_limit_s: from the launch to `Ready`, and for the answers about kernels.
        nice: added niceness of every thread of the engine.
        card: what its card's driver is given beyond the walls of the processor's engine.
        warms: the graphs that an engine may be given which only warms up: what it compiled may be
            exported, since it has seen no byte of anybody's task. Empty for one that works.
    """

    runtime: Runtime
    input_bytes: int
    output_bytes: int
    threads: int = 1
    memory_bytes: int = 512 * MIB
    backend: str = "cpu"
    level: Level = "full"
    environment: dict[str, str] = field(default_factory=dict)
    start_limit_s: float = 20.0
    nice: int = 10
    card: CardAccess = NO_CARD
    warms: frozenset[bytes] = frozenset()

    @property
    def task_bytes(self) -> int:
        """Memory that one task may take: the card's own, where it has some."""
        return self.card.memory_bytes or self.memory_bytes


@dataclass(frozen=True, slots=True)
class EngineTask:
    """Evaluate a graph on slots.

    Args:
        graph: canonical bytes (`gpugoblin.graph.serialize.encode`).
        inputs: a slot of the input arena for each input of the graph, C-order little-endian bytes
            of exactly the size that the graph says.
        outputs: likewise, of the output arena.
        predicted_s: how long it should take; twice that and 5 s more ends the engine.
    """

    graph: bytes
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    predicted_s: float
    numeric_class: NumericClass = "float32"


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine may be given tasks. Its own words; the level is what the launcher gave.

    The last four are dtypes by what the engine does with them, and numeric classes
    (`gpugoblin.graph.dtypes`).
    """

    build: str
    driver: str
    backend: str
    catalog_hash: str
    kernel_set: str
    threads: int
    level: Level
    walls: dict[str, bool | int | str]
    dtypes: tuple[Dtype, ...] = ()
    arithmetic: tuple[Dtype, ...] = ()
    convolutions: tuple[Dtype, ...] = ()
    classes: tuple[NumericClass, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The outputs of the task lie in their slots, unjudged."""

    task: int
    compute_s: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The task was not begun; `error` is `task_refused`, or with the code `does_not_fit` that or
    `does_not_fit_at_once`."""

    task: int
    code: str
    error: EngineError


@dataclass(frozen=True, slots=True)
class Failed:
    """The task ended without result (`cancelled` is one of the codes); the engine lives on.

    The error is the GraphError that the reference raises where the values are to blame
    (`index_out_of_range`), else `task_failed`.
    """

    task: int
    code: str
    node: int
    error: GoblinError


@dataclass(frozen=True, slots=True)
class Progress:
    """Share of the running task that is done."""

    task: int
    fraction: float


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to `Engine.ping`."""

    round_trip_s: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer to `Engine.prepare`. `accepted`: the driver takes what was compiled."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """The answer to `Engine.export`; 0 bytes where there was nothing, or no room."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Log:
    """A line of the engine: printable, at most 200 characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Died:
    """The last event: the engine is gone and reaped, and why. `lost`: tasks without an answer.

    The error is a SandboxError where its walls did not stand, else an EngineError; that of code
    `card_lost` has a field `kernels`, the names of those that ran then.
    """

    error: GoblinError
    lost: tuple[int, ...]


Event = Ready | Done | Refused | Failed | Progress | Pong | Log | Prepared | Exported | Died
