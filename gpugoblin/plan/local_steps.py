"""How many local steps a round makes: enough to hide the link.

Owns: that arithmetic. Must not: measure; every rate is passed in.

A shard of H steps is carried and computed in

    T(H) = latency + round_bytes / rate + H (step_bytes / rate + step_s),

the two-parameter model of a link (R. Hockney, *The communication challenge for MPP*, 1994) beside
the tasks of DiLoCo (A. Douillard and others, 2023): weights go out and what they moved by comes
back once a round, examples go out once a step. With H step_s / T(H) >= u the device computes for a
share u of the time, so

    H >= u (latency + round_bytes / rate) / ((1 - u) step_s - u step_bytes / rate),

and where the denominator is not positive the examples alone take more than a share 1 - u: no H is
enough. More steps than that cost the curve and gain little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from gpugoblin.errors import PlanError

__all__ = ["FEWEST", "MOST", "UTILISATION", "Pace", "choose_steps", "utilisation", "wanted_steps"]

UTILISATION: Final = 0.85
"""The share of the time in which devices compute that is aimed at."""

FEWEST, MOST = 2, 1024


@dataclass(frozen=True, slots=True)
class Pace:
    """What a shard's time follows from.

    Args:
        step_s: seconds that a local step takes a device.
        latency_s: seconds of a task that pass whatever its size.
        bytes_per_s: of a device's link.
        round_bytes: what is carried once a round, both ways together. step_bytes: once a step.
    """

    step_s: float
    latency_s: float
    bytes_per_s: float
    round_bytes: int
    step_bytes: int


def utilisation(pace: Pace, steps: int) -> float:
    """The share of a round in which its device computes, from 0 to 1."""
    computed_s = steps * pace.step_s
    moved = pace.round_bytes + steps * pace.step_bytes
    return computed_s / max(computed_s + pace.latency_s + moved / pace.bytes_per_s, 1e-30)


def wanted_steps(pace: Pace, share: float = UTILISATION) -> float:
    """The least number of local steps, not rounded, that gives this utilisation; `inf`: none."""
    fixed_s = pace.latency_s + pace.round_bytes / pace.bytes_per_s
    gained_s = (1.0 - share) * pace.step_s - share * pace.step_bytes / pace.bytes_per_s
    return share * fixed_s / gained_s if gained_s > 0 else inf


def choose_steps(pace: Pace, steps: int, most: int, fits: Callable[[int], bool]) -> int:
    """The local steps of a round of a training of `steps` steps.

    The least divisor of `steps`, from 2 on, with which devices compute for the share of the time
    that is aimed at; where there is none, the largest that is possible.

    Args:
        most: local steps at most, as the data allows. fits: whether a task of so many can be made;
            where it cannot, neither can one of more.

    Raises:
        PlanError: `local_steps_not_found`.
    """
    most = min(most, MOST)
    possible = [n for n in range(FEWEST, most + 1) if steps % n == 0]
    wanted = wanted_steps(pace)
    enough = next((at for at, n in enumerate(possible) if n >= wanted), len(possible) - 1)
    possible = possible[: enough + 1]
    if possible and fits(possible[-1]):
        return possible[-1]
    # How many of them fit: making the graph of a task to see it takes a while.
    count = bisect_left(possible, True, hi=max(0, len(possible) - 1), key=lambda n: not fits(n))
    if not count:
        raise PlanError("local_steps_not_found", steps=steps, most=most)
    return possible[count - 1]
