"""What an engine process is started with, and at which level it is walled in.

Owns: the data between whoever wants an engine (agent, lab node) and `launch.py`. Must not: start
anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["EngineLaunch", "Level", "Runtime"]

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
        backend: `cpu`, `vulkan`, or `vulkan:UUID` for one card.
        level: what the caller demands; a lower level is never given in silence.
        environment: extra variables for the backend, beside the fixed list.
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
