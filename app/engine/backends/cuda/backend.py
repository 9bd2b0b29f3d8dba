"""An NVIDIA card through CUDA as a backend. Owns its name, its card and what it serves."""

from __future__ import annotations

from app.engine.backends.card.served import WIDE_DTYPES
from app.engine.backends.card.table import EMITTERS
from app.engine.backends.cuda.compiling import compile_card
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.program import CudaProgram
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.ir import Graph

__all__ = ["CudaBackend"]


class CudaBackend:
    """One card.

    Args:
        uuid: empty for the first card.

    Raises:
        EngineError: `card_missing`, `card_unsuited`, `card_failed`.
    """

    name = "cuda"
    classes = frozenset(CLASSES)
    dtypes = WIDE_DTYPES

    def __init__(self, uuid: str = "") -> None:
        self.machine = Machine(uuid)

    @property
    def operators(self) -> frozenset[str]:
        """Keys of the operators that it has kernels for."""
        return frozenset(EMITTERS) | {"formula@1", "reshape@1"}

    def compile(self, graph: Graph, numeric_class: str) -> CudaProgram:
        """Raises EngineError `task_refused` for what it does not serve."""
        return compile_card(graph, self.machine, numeric_class)

    def driver(self) -> str:
        """`cuda-13.0-sm_90`, at most 64 printable characters."""
        version = self.machine.device.version()
        architecture = self.machine.device.card.architecture
        return f"cuda-{version // 1000}.{version % 1000 // 10}-sm_{architecture}"

    def close(self) -> None:
        self.machine.close()
