"""A card through Vulkan as a backend. Owns its name, its card and what it serves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from app.engine.backends.card.table import EMITTERS
from app.engine.backends.vulkan.compiling import compile_card, dtypes_of, keeps_small_numbers
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.program import CardProgram
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.graph.ir import Graph

__all__ = ["SERVED_BESIDE", "VALIDATION_VARIABLE", "VulkanBackend"]

SERVED_BESIDE: Final = frozenset(("formula@1", "reshape@1"))
"""What is served without a kernel of its own in the table."""

VALIDATION_VARIABLE: Final = "GPUGOBLIN_VULKAN_VALIDATION"
"""Set to 1 in tests: what the validation layer says ends a task as a failure."""


class VulkanBackend:
    """One card.

    Args:
        uuid: empty for the first card that is no software.

    Raises:
        EngineError: `card_missing`, `card_unsuited`, `card_failed`.
    """

    name = "vulkan"

    def __init__(self, uuid: str = "") -> None:
        self.machine = Machine(uuid, validated=os.environ.get(VALIDATION_VARIABLE) == "1")

    @property
    def classes(self) -> frozenset[str]:
        """All, but `exact` only where the driver keeps small numbers, which the card is asked."""
        lost = frozenset[str]() if keeps_small_numbers(self.machine) else {"exact"}
        return frozenset(CLASSES) - lost

    @property
    def dtypes(self) -> Dtypes:
        return dtypes_of(self.machine)

    @property
    def operators(self) -> frozenset[str]:
        """Keys of the operators that it has kernels for."""
        return frozenset(EMITTERS) | SERVED_BESIDE

    def compile(self, graph: Graph, numeric_class: str) -> CardProgram:
        """Raises EngineError `task_refused` for what it does not serve."""
        return compile_card(graph, self.machine, numeric_class)

    def prepare(self, refused: Sequence[str], alone: Sequence[str], compiled: bytes | None) -> bool:
        """Kernels that are not to be run, those to be run by themselves, and an earlier export.

        Returns:
            whether the driver takes the export: it is of this card and this driver.
        """
        self.machine.refused, self.machine.alone = frozenset(refused), frozenset(alone)
        return compiled is not None and self.machine.pipelines.load(compiled)

    def export(self) -> bytes:
        """The driver's cache of all kernels that were compiled."""
        return self.machine.pipelines.export()

    def running(self) -> tuple[str, ...]:
        """Names of the kernels that the card has not answered for."""
        return tuple(sorted({name for names in self.machine.in_flight.values() for name in names}))

    def driver(self) -> str:
        """`vulkan-llvmpipe-Mesa_22.3.6`, at most 64 printable characters."""
        card = self.machine.device.card
        text = f"vulkan-{card.driver}"
        return "".join(sign for sign in text if sign.isalnum() or sign in "-_.")[:64]

    def close(self) -> None:
        self.machine.close()
