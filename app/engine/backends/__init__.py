"""The backends, by name. Owns the choice; a backend is imported only when it is chosen."""

from __future__ import annotations

from app.engine.backends.spec import Served
from gpugoblin.errors import EngineError

__all__ = ["backend_named"]


def backend_named(name: str) -> Served:
    """The backend `name`, its kernel table proven against the catalog.

    Args:
        name: `cpu`, `vulkan` or `cuda` for the first card, `vulkan:UUID` or `cuda:UUID`.

    Raises:
        EngineError: `kernel_missing`, `card_missing`, `card_unsuited`, `card_failed`.
    """
    if name == "cpu":
        from app.engine.backends.cpu.backend import CpuBackend

        return CpuBackend()
    family, _, uuid = name.partition(":")
    if family == "vulkan":
        from app.engine.backends.vulkan.backend import VulkanBackend

        return VulkanBackend(uuid)
    if family == "cuda":
        from app.engine.backends.cuda.backend import CudaBackend

        return CudaBackend(uuid)
    raise EngineError("kernel_missing", backend=name, missing="every operator", unknown="none")
