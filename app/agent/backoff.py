"""How long to wait before trying again: exponential with full jitter.

Owns: the formula. Must not: sleep; hold a generator of its own. After an outage a million devices
must not come back in the same second: full jitter spreads them evenly (AWS Architecture Blog,
"Exponential Backoff And Jitter", 2015).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(slots=True)
class Backoff:
    """Waits between 0 and `first_s * 2**failures`, at most `most_s`; never less than `least_s`."""

    rng: random.Random = field(repr=False)
    first_s: float = 1.0
    most_s: float = 3600.0
    least_s: float = 0.1
    failures: int = 0

    def next_s(self, asked_s: float | None = None) -> float:
        """The wait after one more failure; `asked_s` (the other side's wish) is the least."""
        ceiling_s = min(self.most_s, self.first_s * 2.0 ** min(self.failures, 40))
        self.failures += 1
        drawn_s = self.rng.uniform(0.0, ceiling_s)
        return max(self.least_s, drawn_s, min(asked_s or 0.0, self.most_s))

    def succeeded(self) -> None:
        """Starts again from `first_s`."""
        self.failures = 0
