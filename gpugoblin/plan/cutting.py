"""Where a line is cut: dynamic programming over its places.

Owns: the two objectives. Pure. Must not: know graphs; it gets numbers a place and a node.

`g(i) = min_j g(j) + crossing(j)` over spans `j..i` that fit gives the fewest bytes at the cuts;
`f_k(i) = min_j max(f_{k-1}(j), time(j, i))` the shortest slowest of at most k stages (as PipeDream
does, Narayanan et al., 2019, section 3.1). Both are vectors over j for each i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Pace", "Span", "Weights", "cut_for_bytes", "cut_for_pace"]

Span = tuple[int, int]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pace:
    """One contributor: float32 arithmetic, and its link with the lab node."""

    flops_per_s: float
    bytes_per_s: float


@dataclass(slots=True)
class Weights:
    """What the memory of a span is made of; `inner` is corrected as spans are measured.

    Args:
        held: bytes of each node that are there however long the span is (weights, gradients).
        inner: bytes of each node that its backward keeps.
        scratch: bytes beside that each node needs for a while.
        crossing: bytes at each place, one more than nodes.
        inputs: inputs of each node that come from the program.
        flops: of each node.
    """

    held: Numbers
    inner: Numbers
    scratch: Numbers
    crossing: Numbers
    inputs: Numbers
    flops: Numbers

    def memory(self, stop: int) -> Numbers:
        """Of all spans that end before `stop`, by start."""
        held: Numbers = np.cumsum(self.held[:stop][::-1])[::-1]
        inner: Numbers = np.cumsum(self.inner[:stop][::-1])[::-1]
        most: Numbers = np.maximum.accumulate(self.scratch[:stop][::-1])[::-1]
        crossing: Numbers = self.crossing[:stop] + self.crossing[stop]
        return held + inner + most + 2 * crossing

    def parts(self, start: int, stop: int) -> tuple[float, float, float]:
        """The memory of one span: what is held or crosses, what is kept, scratch."""
        crossing = 2 * float(self.crossing[start] + self.crossing[stop])
        return (
            float(self.held[start:stop].sum()) + crossing,
            float(self.inner[start:stop].sum()),
            float(self.scratch[start:stop].max()),
        )

    def count(self, stop: int) -> Numbers:
        """Inputs of all spans that end before `stop`, by start."""
        found: Numbers = np.cumsum(self.inputs[:stop][::-1])[::-1]
        return found


def cut_for_bytes(
    weights: Weights, limit_bytes: float, most_inputs: int, stage_bytes: float,
    tiled: dict[Span, float],
) -> list[Span]:  # fmt: skip
    """The spans with the fewest bytes at their cuts.

    Args:
        stage_bytes: what one stage more is worth.
        tiled: spans that may be taken although they do not fit, with what that is worth in bytes.
    """
    count = len(weights.flops)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    came = np.zeros(count + 1, np.int64)
    for stop in range(1, count + 1):
        fits = (weights.memory(stop) <= limit_bytes) & (weights.count(stop) <= most_inputs)
        costs = np.where(fits, best[:stop] + weights.crossing[:stop] + stage_bytes, np.inf)
        for (start, end), extra in tiled.items():
            if end == stop:
                costs[start] = min(
                    costs[start], best[start] + weights.crossing[start] + stage_bytes + extra
                )
        came[stop] = int(np.argmin(costs))
        best[stop] = costs[came[stop]]
    return _back(came, count) if np.isfinite(best[count]) else []


def cut_for_pace(
    weights: Weights, limit_bytes: float, most_inputs: int, pace: Pace, most: int,
    tiled: dict[Span, float],
) -> list[Span]:  # fmt: skip
    """At most `most` spans of which the slowest is as fast as it can be."""
    count = len(weights.flops)
    done = np.concatenate(([0.0], np.cumsum(weights.flops)))
    spans = np.full((count + 1, count + 1), np.inf)
    for stop in range(1, count + 1):
        fits = (weights.memory(stop) <= limit_bytes) & (weights.count(stop) <= most_inputs)
        for (start, end), extra in tiled.items():
            if end == stop and np.isfinite(extra):
                fits[start] = True
        moved = 2 * (weights.crossing[:stop] + weights.crossing[stop])
        # Backward with recompute is three times the forward.
        times = np.maximum(
            3 * (done[stop] - done[:stop]) / pace.flops_per_s, moved / pace.bytes_per_s
        )
        spans[:stop, stop] = np.where(fits, times, np.inf)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    paths: list[npt.NDArray[np.int64]] = []
    found: tuple[float, int] = (np.inf, 0)
    for used in range(min(most, count)):
        slowest = np.maximum(best[:, None], spans)
        paths.append(np.argmin(slowest, axis=0))
        best = np.min(slowest, axis=0)
        if best[count] < found[0]:
            found = float(best[count]), used + 1
    if not np.isfinite(found[0]):
        return []
    result: list[Span] = []
    stop = count
    for used in range(found[1] - 1, -1, -1):
        start = int(paths[used][stop])
        result.append((start, stop))
        stop = start
    return result[::-1]


def _back(came: npt.NDArray[np.int64], count: int) -> list[Span]:
    found: list[Span] = []
    stop = count
    while stop > 0:
        found.append((int(came[stop]), stop))
        stop = int(came[stop])
    return found[::-1]
