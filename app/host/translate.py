"""Between the words of the protocol and what a parent hands in and gets. Pure.

Owns: that mapping, both ways. Must not: send or decide anything.
"""

from __future__ import annotations

from app.engine import protocol
from app.host import spec as said
from app.host.arena import Arena, Slot
from app.host.spec import EngineTask, Event, HostSpec
from app.sandbox.spec import EngineLaunch, Level
from gpugoblin.errors import EngineError, GoblinError, GraphError

__all__ = ["about_task", "became_ready", "launch_spec", "place", "run_message"]


def launch_spec(spec: HostSpec, control_fd: int, inputs: Arena, outputs: Arena) -> EngineLaunch:
    """What the launcher is given; its memory includes what the engine itself takes."""
    overhead_bytes = protocol.overhead_bytes(spec.threads, spec.backend)
    own_bytes = spec.card.memory_bytes
    return EngineLaunch(
        runtime=spec.runtime,
        control_fd=control_fd,
        input_fd=inputs.fd,
        output_fd=outputs.fd,
        input_bytes=inputs.size_bytes,
        output_bytes=outputs.size_bytes,
        threads=spec.threads,
        memory_bytes=spec.memory_bytes + overhead_bytes,
        backend=spec.backend,
        level=spec.level,
        environment=spec.environment,
        card=spec.card,
        task_bytes=own_bytes + overhead_bytes if own_bytes else 0,
    )


def place(slot: Slot) -> protocol.Place:
    return protocol.Place(slot.offset, slot.nbytes)


def run_message(task: EngineTask, graph_place: protocol.Place | None) -> protocol.Run:
    """The order for a task; with `graph_place` the graph's bytes lie in the arena of inputs."""
    return protocol.Run(
        numeric_class=task.numeric_class,
        inputs=tuple(map(place, task.inputs)),
        outputs=tuple(map(place, task.outputs)),
        graph=task.graph if graph_place is None else b"",
        graph_place=graph_place,
    )


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
        dtypes=message.dtypes,
        arithmetic=message.arithmetic,
        convolutions=message.convolutions,
        classes=message.classes,
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
        if message.code == "does_not_fit" and message.detail == protocol.AT_ONCE:
            error = EngineError("does_not_fit_at_once", needed_bytes=message.needed_bytes)
        elif message.code == "does_not_fit":
            error = EngineError(
                "does_not_fit", needed_bytes=message.needed_bytes, memory_bytes=memory_bytes
            )
        return said.Refused(task, message.code, error)
    if isinstance(message, protocol.Failed):
        return said.Failed(task, message.code, message.node, _failure(message))
    raise EngineError("engine_lied", reason=f"{type(message).__name__} is about no task")


def _failure(message: protocol.Failed) -> GoblinError:
    if message.code == "index_out_of_range" and len(message.values) == 3:
        index, axis, extent = message.values
        return GraphError(
            "index_out_of_range", operator="gather", index=index, axis=axis, extent=extent
        )
    return EngineError("task_failed", node=message.node, reason=f"{message.code}, {message.detail}")
