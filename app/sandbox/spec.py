"""What an engine process is started with, and at which level it is walled in.

Owns: the data between whoever wants an engine (agent, lab node) and `launch.py`. Must not: start
anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

__all__ = ["NO_CARD", "CardAccess", "CardPolicy", "EngineLaunch", "Level", "Runtime"]

Level = Literal["full", "reduced", "none"]
"""`full`: all five layers. `reduced`: Landlock, both seccomp stages and limits, no namespaces;
the owner's opt-in. `none`: a plain child, for the user's own jobs only; never takes a grant."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A private copy of interpreter, standard library, NumPy and engine in one directory.

    Args:
        root: the directory, named by the hash of its content, readable by the engine's user.
        python: the interpreter inside it.
        app: the directory that holds the packages `gpugoblin` and `app` of the engine.
        build: the engine's build name, a `Word` of the wire.
    """

    root: Path
    python: Path
    app: Path
    build: str


CardPolicy = Literal["none", "software", "drm", "nvidia"]
"""What both filters and Landlock add. `software`: a driver that makes machine code of kernels;
`drm`: commands of the kernel's graphics subsystem (AMD, Intel); `nvidia`: those of its driver."""


@dataclass(frozen=True, slots=True)
class CardAccess:
    """What of the machine an engine is shown of its one card.

    Args:
        nodes: device nodes, of this card alone.
        shown: directories of the kernel that the driver reads, read-only.
        links: names below /sys that lead there: (what the link says, where it lies).
        memory_bytes: of the card's own memory one task may take; 0 where the card computes in the
            process's memory, whose limit then holds.
    """

    policy: CardPolicy = "none"
    nodes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    memory_bytes: int = 0


NO_CARD: Final = CardAccess()


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One engine to be started.

    Args:
        runtime: see above.
        control_fd: the engine's end of the SOCK_SEQPACKET pair.
        input_fd: sealed memfd of inputs. output_fd: sealed memfd of outputs.
        input_bytes, output_bytes: sizes of the two.
        threads: worker threads of the engine.
        memory_bytes: private memory that the engine may take (RLIMIT_DATA and the watchdog).
        task_bytes: memory of a task and the engine together, as the engine is told; 0:
            `memory_bytes`.
        backend: `cpu`, `vulkan`, or `vulkan:UUID` for one card.
        level: what the caller demands; a lower level is never given in silence.
        environment: extra variables for the backend, beside the fixed list.
        card: what the backend may reach of its card.
    """

    runtime: Runtime
    control_fd: int
    input_fd: int
    output_fd: int
    input_bytes: int
    output_bytes: int
    threads: int
    memory_bytes: int
    backend: str = "cpu"
    level: Level = "full"
    environment: dict[str, str] = field(default_factory=dict)
    card: CardAccess = NO_CARD
    task_bytes: int = 0
