"""The steps of a stage's loops: tiles that fit an engine and cost little.

Owns: the search. Pure. Must not: decide what a stage makes.

Tiles start whole. The loop is halved whose halving costs least, until the tile fits, and further as
long as it is larger than an engine's share should be and halving costs next to nothing: smaller
tiles keep more engines busy and lose less when one leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpugoblin.plan.figures import Totals, burden, fits, work
from gpugoblin.plan.flow import Flow, Held, trace
from gpugoblin.plan.spans import Loop, Span, make_loop
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage import Stage, Want, all_spans, sink_of
from gpugoblin.units import MIB

__all__ = ["TILE_BYTES", "TILE_FLOPS", "Cut", "Fitted", "fit", "radices"]

TILE_BYTES: Final = 32 * MIB
"""What tiles of large results should have at most."""

TILE_FLOPS: Final = 100_000_000_000
"""And how long they should take at most: seconds of a core, an instant of a card."""

_PARTS: Final = 8
"""Results that are no larger than a few tiles are cut into about so many, down to a quarter of the
size, so that there is something for several engines to do."""

_SLIGHT: Final = 1.1
_MODEST: Final = 1.25
"""What halving may cost when it is not needed; the second for tiles far larger than they should
be."""

_EFFICIENT: Final = 1.3
_ATTEMPTS: Final = 6


@dataclass(frozen=True, slots=True)
class Cut:
    """What may be cut.

    Args:
        wants: what the stage makes, in terms of the loops.
        extents: of the loops.
        steps: where the search starts; an extent for a whole loop.
        free: the loops that may be cut further.
        aim_bytes: the size that tiles should have.
        fixed: the loops themselves, where another stage has chosen them; nothing is searched then.
    """

    wants: tuple[Want, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    free: tuple[int, ...]
    aim_bytes: int = TILE_BYTES
    fixed: tuple[Loop, ...] = ()


@dataclass(frozen=True, slots=True)
class Fitted:
    """The best stage found.

    Args:
        good: every task fits. If not, no smaller tiles were found.
        ideal: the work of the same as one task, whether that fits or not.
    """

    stage: Stage
    totals: Totals
    good: bool
    ideal: float

    @property
    def burden(self) -> float:
        """The cost; tiles far larger than they should be count for more."""
        excess = max(1.0, self.totals.bound_bytes / (2 * TILE_BYTES))
        return burden(self.totals) * math.sqrt(excess)

    @property
    def efficient(self) -> bool:
        """Whether cutting costs little."""
        slim = self.totals.bound_bytes <= 2 * TILE_BYTES
        return self.good and slim and work(self.totals) <= _EFFICIENT * self.ideal


def radices(flow: Flow, cut: Cut, held: Mapping[int, Held]) -> tuple[tuple[int, ...], ...]:
    """For each loop the sizes of groups that reshapes make of its axis, each a divisor of the
    next."""
    whole = [(0, extent) for extent in cut.extents]
    program = trace(flow, [sink_of(flow, want) for want in cut.wants], held, whole)
    sizes: list[set[int]] = [set() for _ in cut.extents]
    for span in all_spans(program):
        for one in (span, *span.parts):
            if one.loop >= 0 and not one.parts:
                sizes[one.loop] |= _first_groups(one)
    chains: list[tuple[int, ...]] = []
    for extent, found in zip(cut.extents, sizes, strict=True):
        chain: list[int] = []
        for size in sorted(found):
            if extent % size == 0 and size < extent and (not chain or size % chain[-1] == 0):
                chain.append(size)
        chains.append(tuple(chain))
    return tuple(chains)


def _first_groups(span: Span) -> set[int]:
    """The groups in which a piece is taken before anything but scaling happens to it."""
    scale = 1
    found: set[int] = set()
    for kind, size, _ in span.maps:
        if kind == "scale":
            scale *= size
        elif kind == "align" and size % scale == 0:
            found.add(size // scale)
        else:
            break
    return found - {1}


def fit(flow: Flow, cut: Cut, held: Mapping[int, Held], first: int, limits: Limits) -> Fitted:
    """The stage of a cut, with the steps of its free loops chosen."""
    if cut.fixed:
        stage = Stage(flow, cut.wants, cut.fixed, held, first)
        totals = stage.totals()
        return Fitted(stage, totals, fits(totals, limits), work(totals))
    search = _Search(flow, cut, held, first)
    least, smallest = search.least()
    if not fits(smallest, limits):
        return Fitted(least, smallest, good=False, ideal=search.ideal)
    room = limits
    found = search.run(room)
    for _ in range(_ATTEMPTS):
        totals = found.totals()
        if fits(totals, limits):
            return Fitted(found, totals, good=True, ideal=search.ideal)
        # A tile at an edge (the seam of a concatenation) is larger than the typical one.
        room = replace(room, memory_bytes=room.memory_bytes * 4 // 5,
                       slot_bytes=room.slot_bytes * 4 // 5)  # fmt: skip
        smaller = search.run(room)
        if smaller.loops == found.loops:
            break
        found = smaller
    return Fitted(found, found.totals(), good=False, ideal=search.ideal)


class _Search:
    """One search, with the stages that it has seen."""

    def __init__(self, flow: Flow, cut: Cut, held: Mapping[int, Held], first: int) -> None:
        self._flow, self._cut, self._held, self._first = flow, cut, held, first
        self._seen: dict[tuple[int, ...], tuple[Stage, Totals]] = {}
        self._radices = radices(flow, cut, held)
        whole = self._at(cut.steps)[1]
        self.ideal = work(whole)
        self._aim_bytes = cut.aim_bytes
        if cut.steps == cut.extents:
            share = max(cut.aim_bytes // 4, whole.bound_bytes // _PARTS)
            self._aim_bytes = min(cut.aim_bytes, share)

    def least(self) -> tuple[Stage, Totals]:
        """The smallest tiles that there are."""
        steps = list(self._cut.steps)
        for loop in self._cut.free:
            steps[loop] = 1
        return self._at(tuple(steps))

    def run(self, room: Limits) -> Stage:
        steps = self._cut.steps
        stage, now = self._at(steps)
        while True:
            fitting = fits(now, room)
            small = now.bound_bytes <= self._aim_bytes
            light = now.flops <= TILE_FLOPS * now.tasks
            if fitting and small and light:
                return stage
            wanted = self._aim_bytes if fitting else min(room.memory_bytes, room.slot_bytes)
            parts = _parts(max(now.bound_bytes, now.largest_bytes) / max(1, wanted))
            options = [self._cut_loop(stage, loop, parts) for loop in self._cut.free]
            found = [(work(self._at(one)[1]), one) for one in options if one is not None]
            if not found:
                return stage
            cost, steps = self._pick(found, now, fitting=fitting)
            large = now.bound_bytes > 2 * self._aim_bytes
            if fitting and cost > (_MODEST if large else _SLIGHT) * work(now):
                return stage
            stage, now = self._at(steps)

    def _pick(
        self, found: Sequence[tuple[float, tuple[int, ...]]], now: Totals, *, fitting: bool
    ) -> tuple[float, tuple[int, ...]]:
        """The cheapest option, of those that make the tile smaller where there are any."""
        useful = []
        for cost, steps in found:
            then = self._at(steps)[1]
            smaller = (
                then.bound_bytes < now.bound_bytes * 0.95
                or then.largest_bytes < now.largest_bytes * 0.95
                or then.inputs < now.inputs
                or (fitting and then.flops * now.tasks < now.flops * then.tasks * 0.95)
            )
            if smaller:
                useful.append((cost, steps))
        return min(useful or found)

    def _cut_loop(self, stage: Stage, loop: int, parts: int) -> tuple[int, ...] | None:
        """The steps with one loop cut into `parts` times as many pieces; None where it cannot."""
        old = stage.loops[loop]
        if old.step <= 1 or old.extent <= 1:
            return None
        for step in (-(-old.step // parts), old.step - 1, 1):
            new = make_loop(old.extent, step, self._radices[loop])
            if new.step < old.step:
                steps = [one.step for one in stage.loops]
                steps[loop] = new.step
                return tuple(steps)
        return None

    def _at(self, steps: tuple[int, ...]) -> tuple[Stage, Totals]:
        known = self._seen.get(steps)
        if known is None:
            loops = [
                make_loop(extent, step, groups)
                for extent, step, groups in zip(
                    self._cut.extents, steps, self._radices, strict=True
                )
            ]
            stage = Stage(self._flow, self._cut.wants, loops, self._held, self._first)
            known = self._seen[steps] = stage, stage.typical()
        return known


def _parts(ratio: float) -> int:
    """Far from the goal several halvings are made at once; near it each is weighed."""
    return 2 if ratio < 6 else 4 if ratio < 64 else 16
