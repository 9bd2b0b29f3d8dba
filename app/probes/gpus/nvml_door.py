"""NVIDIA's library, opened once for this process, and anew when its driver was lost or reloaded.

Owns: opening and closing. Must not: ask the library anything. The library counts how often it was
opened and forgets its driver only when it was closed as often: opening it once more does nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ["NvmlDoor", "door_of"]

GONE: Final = ("NVML_ERROR_UNINITIALIZED", "NVML_ERROR_DRIVER_NOT_LOADED")
"""What was opened is of a driver that is not there any more."""
LOST: Final = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED")
"""So it may be, or a card fell off its bus for good: then opening anew helps nothing."""
LOST_PERIOD_S: Final = 60.0
MOST_OPENINGS: Final = 64


class NvmlDoor:
    """One door for all threads of the process that use the library.

    Args:
        library: the module, or another that answers like it.
    """

    def __init__(self, library: Any, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._library = library
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._opening = 0
        self._is_open = False
        self._renewed_s: float | None = None

    def open(self) -> int:
        """Opens it where it is not open; the number of this opening.

        Raises:
            the library's errors: there is no driver that answers.
        """
        with self._lock:
            if not self._is_open:
                self._library.nvmlInit()
                self._is_open = True
                self._opening += 1
            return self._opening

    def renew(self, opening: int, error: Exception) -> bool:
        """Closes it if an error says that its driver is another one; the next `open` is anew.

        Args:
            opening: in which the error came; one that was renewed meanwhile is left alone.

        Returns:
            Whether it is worth asking again.
        """
        nvml = self._library
        if not isinstance(error, nvml.NVMLError):
            return False
        value = getattr(error, "value", None)
        is_gone = value in {getattr(nvml, name, None) for name in GONE} - {None}
        is_lost = value in {getattr(nvml, name, None) for name in LOST} - {None}
        with self._lock:
            if opening != self._opening:
                return is_gone or is_lost
            now_s = self._monotonic_s()
            if is_lost and self._renewed_s is not None:
                is_lost = now_s - self._renewed_s >= LOST_PERIOD_S
            if self._is_open and (is_gone or is_lost):
                self._renewed_s = now_s
                self._close()
            return is_gone or is_lost

    def shut(self, opening: int) -> None:
        """Closes it whatever the cause: the driver as a whole did not answer."""
        with self._lock:
            if self._is_open and opening == self._opening:
                self._close()

    def _close(self) -> None:
        self._is_open = False
        for _ in range(MOST_OPENINGS):
            try:
                self._library.nvmlShutdown()
            except self._library.NVMLError:
                return  # it is closed for good


_DOORS: Final[dict[Any, NvmlDoor]] = {}
"""A process has one such library, and never lets it go."""
_MAKING: Final = threading.Lock()


def door_of(library: Any) -> NvmlDoor:
    """The one door of a library."""
    with _MAKING:
        return _DOORS.setdefault(library, NvmlDoor(library))
