"""From the engine's words to the parent's events. Owns that mapping; pure."""

from __future__ import annotations

from app.engine import protocol
from app.host import spec as said
from app.host.spec import Event
from app.sandbox.spec import Level
from gpugoblin.errors import EngineError

__all__ = ["about_task", "became_ready"]


def became_ready(message: protocol.Ready, level: Level) -> said.Ready:
    """The level is what the launcher gave, never what the engine says of itself."""
    return said.Ready(
        build=message.build,
        driver=message.driver,
        backend=message.backend,
        catalog_hash=message.catalog_hash,
        kernel_set=message.kernel_set,
        threads=message.threads,
        level=level,
        walls=dict(message.walls),
    )


def about_task(task: int, message: protocol.Message, memory_bytes: int) -> Event:
    """The event of a message about a task.

    Raises:
        EngineError: `engine_lied` for a message that is about no task.
    """
    if isinstance(message, protocol.Progress):
        return said.Progress(task, message.fraction)
    if isinstance(message, protocol.Done):
        return said.Done(task, message.compute_s, message.peak_memory_bytes)
    if isinstance(message, protocol.Refused):
        error = EngineError("task_refused", reason=f"{message.code}, {message.detail}")
        if message.code == "does_not_fit":
            error = EngineError(
                "does_not_fit", needed_bytes=message.needed_bytes, memory_bytes=memory_bytes
            )
        return said.Refused(task, message.code, error)
    if isinstance(message, protocol.Failed):
        error = EngineError(
            "task_failed", node=message.node, reason=f"{message.code}, {message.detail}"
        )
        return said.Failed(task, message.code, message.node, error)
    raise EngineError("engine_lied", reason=f"{type(message).__name__} is about no task")
