"""Real engines for tests: graphs in, arrays out.

Owns: a plain child, or a walled one that is handed in, and the moving of arrays in and out of its
arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np
from msgspec import convert

from app.engine.protocol import NumericClass
from app.host.engine import Engine
from app.host.spec import Died, Done, EngineTask, Failed, HostSpec, Refused
from app.sandbox.plain import installed_runtime
from gpugoblin.catalog.spec import Array
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.units import MIB

__all__ = ["RealEngine"]


class RealEngine:
    """One engine, at the level `none` unless another is handed in, and one task at a time."""

    def __init__(
        self,
        threads: int = 2,
        memory_bytes: int = 64 * MIB,
        backend: str = "cpu",
        environment: dict[str, str] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.engine = engine or Engine.start(
            HostSpec(
                runtime=installed_runtime(),
                input_bytes=64 * MIB,
                output_bytes=64 * MIB,
                threads=threads,
                memory_bytes=memory_bytes,
                backend=backend,
                environment=environment or {},
                level="none",
            )
        )

    def run(
        self, graph: Graph, inputs: Sequence[Array], numeric_class: str = "float32"
    ) -> tuple[Array, ...]:
        """The outputs of a graph.

        Raises:
            GoblinError: what the engine refused or failed with, or died of.
        """
        engine = self.engine
        engine.wait_ready()
        read = [engine.inputs.allocate(array.nbytes) for array in inputs]
        specs = graph.output_specs()
        written = [engine.outputs.allocate(spec.nbytes) for spec in specs]
        try:
            for slot, array in zip(read, inputs, strict=True):
                engine.inputs.view(slot)[:] = np.ascontiguousarray(array).tobytes()
            task = engine.submit(
                EngineTask(
                    encode(graph),
                    tuple(read),
                    tuple(written),
                    predicted_s=20.0,
                    numeric_class=convert(numeric_class, NumericClass),
                )
            )
            self.until_done(task)
            return tuple(
                engine.outputs.array(slot, spec.dtype, spec.shape).copy()
                for slot, spec in zip(written, specs, strict=True)
            )
        finally:
            for slot in read:
                engine.inputs.free(slot)
            for slot in written:
                engine.outputs.free(slot)

    def until_done(self, task: int) -> Done:
        """Waits for the answer to a task; raises what came instead of `Done`."""
        while True:
            for event in self.engine.wait(30.0):
                if isinstance(event, Died):
                    raise event.error
                if isinstance(event, (Refused, Failed)) and event.task == task:
                    raise event.error
                if isinstance(event, Done) and event.task == task:
                    return event

    def close(self) -> None:
        self.engine.close()

    def __enter__(self) -> RealEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
