"""What matrix units a card has, and which tiles a product of 16-bit operands takes on them.

Owns: the choice. Must not: write a kernel, or ask a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from app.engine.backends.card.product import Problem

__all__ = [
    *("LARGE", "MOST_TERMS", "NO_UNITS", "SMALL", "TALL", "VECTOR", "WIDE", "Blocking"),
    *("Fragment", "Units", "choose", "fits", "tile_vectors"),
]

VECTOR: Final = 8
"""Elements of 16 bits that are read at once."""
MOST_TERMS: Final = 65536
"""Of a product. A unit adds the products of several terms at a time, 8 at least, to a sum that it
keeps in float32: chains of additions are not longer than the catalog's bound allows for."""
LEAST: Final = 32
"""Rows, columns and terms below which a tile is mostly empty."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The matrices of one instruction: [rows, terms] times [terms, columns]."""

    rows: int
    columns: int
    terms: int


@dataclass(frozen=True, slots=True)
class Units:
    """What a driver lists.

    Args:
        subgroup: threads that hold a matrix together; 0 where there are no matrices.
        fragments: by the form of the operands; their sums are float32.
    """

    subgroup: int = 0
    fragments: Mapping[str, tuple[Fragment, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )


NO_UNITS: Final = Units()


def tile_vectors(extent: int, depth: int, *, inner_first: bool) -> int:
    """Vectors of an operand's tile in shared memory, whose rows have one more than they need."""
    rows, length = (extent, depth) if inner_first else (depth, extent)
    return rows * (length // VECTOR + 1)


@dataclass(frozen=True, slots=True)
class Blocking:
    """How a product is cut.

    Args:
        rows, columns: of the result that a group makes.
        depth: terms of one turn.
        subgroups: of a group, along rows and columns.
    """

    rows: int
    columns: int
    depth: int
    subgroups: tuple[int, int]

    @property
    def own(self) -> tuple[int, int]:
        """Rows and columns that a subgroup makes."""
        return self.rows // self.subgroups[0], self.columns // self.subgroups[1]

    def threads(self, subgroup: int) -> int:
        return self.subgroups[0] * self.subgroups[1] * subgroup

    def shared_bytes(self, problem: Problem, fragment: Fragment) -> int:
        """Of both tiles, and of the matrices at the edge of a result that they do not fill."""
        left = tile_vectors(self.rows, self.depth, inner_first=not problem.across[0])
        right = tile_vectors(self.columns, self.depth, inner_first=problem.across[1])
        edge = problem.m % fragment.rows or problem.n % fragment.columns
        matrices = self.subgroups[0] * self.subgroups[1] if edge else 0
        return 16 * (left + right) + 4 * fragment.rows * fragment.columns * matrices


LARGE: Final = Blocking(128, 128, 64, (2, 2))
TALL: Final = Blocking(128, 64, 64, (2, 2))
WIDE: Final = Blocking(64, 128, 64, (2, 2))
SMALL: Final = Blocking(64, 64, 64, (2, 2))
BUSY_GROUPS: Final = 128
"""Groups of large tiles from which on they beat more groups of smaller ones on a large card."""


def choose(
    problem: Problem, form: str, units: Units, shared_bytes: int, group_threads: int
) -> tuple[Blocking, Fragment] | None:
    """Tiles and matrices for a product of operands in `form`; None where units are of no use.

    Measured on one card (docs/decisions).
    """
    groups = problem.batch * -(-problem.m // LARGE.rows) * -(-problem.n // LARGE.columns)
    order = (LARGE, WIDE, TALL, SMALL) if groups >= BUSY_GROUPS else (WIDE, TALL, SMALL)
    for blocking in order:
        if blocking.threads(units.subgroup) > group_threads or _empty(problem, blocking):
            continue
        for fragment in _by_size(units.fragments.get(form, ())):
            if (
                fits(problem, blocking, fragment, units.subgroup)
                and blocking.shared_bytes(problem, fragment) <= shared_bytes
            ):
                return blocking, fragment
    return None


def _empty(problem: Problem, blocking: Blocking) -> bool:
    """Is half of the tile beyond the result, and a smaller one to be had?"""
    across = blocking.columns > SMALL.columns and problem.n <= SMALL.columns
    return across or (blocking.rows > SMALL.rows and problem.m <= SMALL.rows)


def _by_size(fragments: tuple[Fragment, ...]) -> list[Fragment]:
    """The largest first: fewer reads for as many products."""
    return sorted(fragments, key=lambda one: -one.rows * one.columns * one.terms)


def fits(problem: Problem, blocking: Blocking, fragment: Fragment, subgroup: int) -> bool:
    """Whether every row of both operands can be read in vectors, and tiles be made of matrices."""
    m, n, k = problem.m, problem.n, problem.k
    rows, columns = blocking.own
    parts = (rows % fragment.rows, columns % fragment.columns, blocking.depth % fragment.terms)
    threads = blocking.threads(subgroup)
    tiles = blocking.rows * blocking.depth, blocking.columns * blocking.depth
    return (
        problem.kind == "float32"
        and LEAST <= k <= MOST_TERMS
        and min(m, n) >= LEAST
        and (m if problem.across[0] else k) % VECTOR == 0
        and (k if problem.across[1] else n) % VECTOR == 0
        and not any(parts)
        and fragment.rows * fragment.columns % subgroup == 0
        and not any(tile % (VECTOR * threads) for tile in tiles)
        and all(side % VECTOR == 0 for side in (fragment.rows, fragment.columns, fragment.terms))
    )
