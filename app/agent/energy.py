"""What lending draws: measured where the machine measures, else estimated, and said which.

Owns: the processor's counter (RAPL) and the estimates. Must not: claim an estimate as measured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from app.agent.history import EnergySource
from app.probes.files import read_number

__all__ = ["EnergyMeter", "read_rapl_uj"]

RAPL: Final = Path("/sys/class/powercap")
THREAD_W: Final = 8.0
"""Estimate of what one busy thread of a processor draws."""
CARD_W: Final = 150.0
"""Estimate of what a busy graphics card draws that does not tell."""
MOST_INTERVAL_S: Final = 600.0


def read_rapl_uj(root: Path = RAPL) -> int | None:
    """The counters of all packages together; None where there is none (only root may read it)."""
    found = [read_number(path / "energy_uj") for path in sorted(root.glob("intel-rapl:?"))]
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


class EnergyMeter:
    """Energy of one card between samples.

    Args:
        is_processor: else it is a graphics card.
        threads: of the processor that are lent.
        all_threads: of the machine: the lent share of a package's energy is taken by threads.
        rapl: reads the package counters.
    """

    def __init__(
        self,
        is_processor: bool,
        threads: int = 1,
        all_threads: int = 1,
        rapl: Callable[[], int | None] = read_rapl_uj,
    ) -> None:
        self._is_processor = is_processor
        self._threads = threads
        self._share = min(1.0, threads / max(1, all_threads))
        self._rapl = rapl
        self._last_uj: int | None = None
        self._last_mj: int | None = None

    def sample(
        self, elapsed_s: float, busy_s: float, power_w: float | None, energy_mj: int | None
    ) -> tuple[float, EnergySource]:
        """Watt-hours since the last sample, and who says so.

        Args:
            busy_s: of the interval, in which tasks were computed.
            power_w: what the card draws now, where it tells.
            energy_mj: its own counter, where it has one.
        """
        elapsed_s = min(max(elapsed_s, 0.0), MOST_INTERVAL_S)
        busy_s = min(max(busy_s, 0.0), elapsed_s)
        if self._is_processor:
            return self._processor(elapsed_s, busy_s)
        before_mj, self._last_mj = self._last_mj, energy_mj
        if energy_mj is not None and before_mj is not None and energy_mj >= before_mj:
            return (energy_mj - before_mj) / 3.6e6, "nvml"
        if power_w is not None:
            return power_w * elapsed_s / 3600.0, "nvml"
        return CARD_W * busy_s / 3600.0, "estimate"

    def _processor(self, elapsed_s: float, busy_s: float) -> tuple[float, EnergySource]:
        now_uj = self._rapl()
        before_uj, self._last_uj = self._last_uj, now_uj
        if now_uj is not None and before_uj is not None and now_uj >= before_uj and elapsed_s:
            share = self._share * busy_s / elapsed_s
            return (now_uj - before_uj) * share / 3.6e9, "rapl"
        return THREAD_W * self._threads * busy_s / 3600.0, "estimate"
