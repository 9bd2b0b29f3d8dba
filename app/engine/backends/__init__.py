"""The backends, by name. Owns the choice; a backend is imported only when it is chosen."""

from __future__ import annotations

from app.engine.backends.spec import Backend
from gpugoblin.errors import EngineError

__all__ = ["backend_named"]


def backend_named(name: str) -> Backend:
    """The backend `name`, its kernel table proven against the catalog.

    Raises:
        EngineError: `kernel_missing`.
    """
    if name == "cpu":
        from app.engine.backends.cpu.backend import CpuBackend

        return CpuBackend()
    raise EngineError("kernel_missing", backend=name, missing="every operator", unknown="none")
