"""A Vulkan device in the test's own process: Mesa's lavapipe where there is no card.

Owns: opening it with the validation layer, and the one reason to skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gpugoblin.errors import EngineError

if TYPE_CHECKING:
    from app.engine.backends.vulkan.device import Device
    from app.engine.backends.vulkan.instance import Instance

__all__ = ["OpenCard", "missing_card", "missing_cuda", "open_card"]


@dataclass(frozen=True, slots=True)
class OpenCard:
    instance: Instance
    device: Device


@contextmanager
def open_card() -> Iterator[OpenCard]:
    """Skips the test where there is no driver."""
    try:
        from app.engine.backends.vulkan.device import Device, choose
        from app.engine.backends.vulkan.instance import Instance

        instance = Instance(validated=True)
        device = Device(choose(instance))
    except EngineError as cause:
        pytest.skip(str(cause))
    try:
        yield OpenCard(instance, device)
    finally:
        device.close()
        instance.close()


def missing_card() -> str:
    """Why there is no Vulkan here, in one line; empty where there is.

    No package, no loader, no driver, or a driver without a card.
    """
    try:
        from app.engine.backends.vulkan.device import choose
        from app.engine.backends.vulkan.instance import Instance

        instance = Instance()
        try:
            choose(instance)
        finally:
            instance.close()
    except EngineError as cause:
        return " ".join(str(cause).split())
    return ""


def missing_cuda() -> str:
    """Why there is no card of NVIDIA here, in one line; empty where there is."""
    from app.engine.backends.cuda.device import cards, choose
    from app.engine.backends.cuda.loader import blas, compiler, driver

    try:
        choose(cards(driver()))
        compiler()
        blas()
    except EngineError as cause:
        return " ".join(str(cause).split())
    return ""
