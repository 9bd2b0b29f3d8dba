from __future__ import annotations

import pytest

from app.engine.backends.card.fragments import (
    LARGE,
    MOST_TERMS,
    NO_UNITS,
    SMALL,
    TALL,
    WIDE,
    Blocking,
    Fragment,
    Units,
    choose,
    fits,
    tile_vectors,
)
from app.engine.backends.card.product import Problem

SIXTEENS = Fragment(16, 16, 16)
CARD = Units(32, {"float16": (Fragment(16, 8, 8), SIXTEENS), "bfloat16": (SIXTEENS,)})
PLAIN = (False, False)
SHARED = 48 * 1024


def problem(m: int, n: int, k: int, across: tuple[bool, bool] = PLAIN, batch: int = 1) -> Problem:
    return Problem("float32", batch, m, n, k, across)


def test_large_products_get_large_tiles_and_the_largest_matrices() -> None:
    large = problem(8192, 8192, 8192)
    assert choose(large, "float16", CARD, SHARED, 1024) == (LARGE, SIXTEENS)
    assert choose(large, "float16", CARD, 32 * 1024, 1024) == (WIDE, SIXTEENS)
    assert choose(large, "float16", CARD, 1024, 1024) is None
    assert choose(large, "float16", CARD, SHARED, 64) is None


def test_small_ones_get_more_groups() -> None:
    assert choose(problem(512, 512, 512), "bfloat16", CARD, SHARED, 1024) == (WIDE, SIXTEENS)
    batched = problem(512, 512, 512, batch=64)
    assert choose(batched, "bfloat16", CARD, SHARED, 1024) == (LARGE, SIXTEENS)


@pytest.mark.parametrize(
    ("m", "n", "expected"), [(512, 64, TALL), (64, 512, WIDE), (64, 64, SMALL), (65, 65, LARGE)]
)
def test_tiles_are_not_half_empty(m: int, n: int, expected: Blocking) -> None:
    one = problem(m, n, 128, (False, True), batch=1000)
    assert choose(one, "float16", CARD, SHARED, 1024) == (expected, SIXTEENS)


def test_cards_without_units_or_a_form() -> None:
    assert choose(problem(512, 512, 512), "float16", NO_UNITS, SHARED, 1024) is None
    only = Units(32, {"float16": (SIXTEENS,)})
    assert choose(problem(512, 512, 512), "bfloat16", only, SHARED, 1024) is None


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (problem(100, 104, 96), True),
        (problem(99, 104, 96), True),
        (problem(100, 99, 96), False),
        (problem(100, 99, 96, (False, True)), True),
        (problem(100, 104, 97), False),
        (problem(104, 104, 97, (True, False)), True),
        (problem(99, 104, 97, (True, False)), False),
        (problem(16, 104, 96), False),
        (problem(100, 104, 16), False),
        (problem(100, 104, MOST_TERMS), True),
        (problem(100, 104, MOST_TERMS + 8), False),
        (Problem("int32", 1, 100, 104, 96, PLAIN), False),
    ],
)
def test_rows_are_read_in_vectors(one: Problem, expected: bool) -> None:
    assert fits(one, LARGE, SIXTEENS, 32) is expected


def test_matrices_must_fill_a_subgroups_part() -> None:
    one = problem(128, 128, 128)
    assert not fits(one, Blocking(128, 120, 64, (2, 2)), SIXTEENS, 32)
    assert not fits(one, Blocking(128, 128, 24, (2, 2)), SIXTEENS, 32)
    assert not fits(one, SMALL, Fragment(16, 4, 16), 32)
    assert not fits(one, SMALL, SIXTEENS, 256)


def test_shared_memory_is_counted() -> None:
    """Rows of 64 halves take nine vectors; an edge takes one matrix of sums a subgroup."""
    assert tile_vectors(128, 64, inner_first=True) == 128 * 9
    assert tile_vectors(128, 64, inner_first=False) == 64 * 17
    whole = LARGE.shared_bytes(problem(128, 128, 64), SIXTEENS)
    assert whole == 16 * (128 * 9 + 64 * 17)
    assert LARGE.shared_bytes(problem(100, 128, 64), SIXTEENS) == whole + 4 * 256 * 4
