"""How fast the node's disk takes synced writes: measured when a large result is planned.

Owns: the measurement and its memory. Must not: run in the service's loop, it blocks.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from gpugoblin.units import MIB

__all__ = ["DiskRate", "measure"]

TRIAL_BYTES: Final = 32 * MIB
LARGE_BYTES: Final = 256 * MIB
"""For a smaller result the measurement would cost more than it tells."""

GUESSED_BYTES_PER_S: Final = 2e8
FRESH_S: Final = 600.0


def measure(directory: Path, nbytes: int = TRIAL_BYTES) -> float:
    """Bytes a second of one synced write of `nbytes`. Blocks.

    Raises:
        OSError: the directory takes no file of this size.
    """
    piece = os.urandom(MIB)  # a disk that compresses is not to be flattered
    with tempfile.TemporaryFile(dir=directory, buffering=0) as trial:
        start_s = time.perf_counter()
        for _ in range(max(1, nbytes // MIB)):
            trial.write(piece)
        os.fdatasync(trial.fileno())
        taken_s = time.perf_counter() - start_s
    return max(1, nbytes // MIB) * MIB / max(taken_s, 1e-6)


class DiskRate:
    """The rate of one directory's disk, measured again when it is ten minutes old."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._rate = 0.0
        self._at_s = 0.0

    def bytes_per_s(self, result_bytes: int) -> float:
        """The rate for a result of `result_bytes`. Blocks, at times for the measurement."""
        with self._lock:
            is_old = not self._rate or time.monotonic() - self._at_s > FRESH_S
            if is_old and result_bytes >= LARGE_BYTES:
                try:
                    self._rate = measure(self._directory)
                except OSError:
                    self._rate = GUESSED_BYTES_PER_S  # the job itself will say what is wrong
                self._at_s = time.monotonic()
            return self._rate or GUESSED_BYTES_PER_S
