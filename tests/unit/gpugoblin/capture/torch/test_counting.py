"""The bound of a loop is read off a test that counts, and never guessed."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.capture.torch.counting import most_steps
from gpugoblin.catalog.body_samples import apply_formula, body
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.spec import TensorSpec

COUNT, VALUE, FLAG = (
    TensorSpec("int64", ()),
    TensorSpec("float32", ()),
    TensorSpec("bool", ()),
)
OTHERWISE = 1000


def step(function: str, by: int, *, turned: bool = False) -> Graph:
    """i, v -> i + by (or by + i), v."""
    places = (2, 0) if turned else (0, 2)
    node = apply_formula(function, places, COUNT)
    return body((COUNT, VALUE), (node,), (3, 1), (np.array(by),))


def asks(function: str, end: int, *, turned: bool = False, beside: str = "and") -> Graph:
    """(i ? end) and (v > 0.5), or turned round: (end ? i)."""
    places = (2, 0) if turned else (0, 2)
    nodes = (
        apply_formula(function, places, FLAG),
        apply_formula("gt", (1, 3), FLAG),
        apply_formula(beside, (4, 5), FLAG),
    )
    return body((COUNT, VALUE), nodes, (6,), (np.array(end), np.array(0.5, np.float32)))


def counted(function: str, start: int, end: int, by: int) -> int:
    """By doing it."""
    steps = 0
    while {"lt": start < end, "le": start <= end, "gt": start > end, "ge": start >= end}[function]:
        start, steps = start + by, steps + 1
    return steps


@pytest.mark.parametrize("function", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("by", [1, 3])
@pytest.mark.parametrize("far", [-1, 0, 1, 5, 6, 7])
def test_it_is_the_number_of_steps_that_counting_takes(function: str, by: int, far: int) -> None:
    sign = 1 if function in ("lt", "le") else -1
    start, end = 2, 2 + sign * far
    expected = counted(function, start, end, sign * by)
    assert most_steps(asks(function, end), step("add", sign * by), [start, None], 99) == expected
    assert most_steps(asks(function, end), step("sub", -sign * by), [start, None], 99) == expected
    swapped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[function]
    other = asks(swapped, end, turned=True)
    turned = step("add", sign * by, turned=True)
    assert most_steps(other, turned, [start, None], 99) == expected


@pytest.mark.parametrize(
    ("test", "doing", "start"),
    [
        (asks("lt", 9), step("add", 1), None),
        (asks("lt", 9), step("add", 0), 0),
        (asks("lt", 9), step("add", -1), 0),
        (asks("lt", 9), step("mul", 2), 1),
        (asks("lt", 9), step("sub", 1, turned=True), 0),
        (asks("ne", 9), step("add", 1), 0),
        (asks("lt", 9, beside="or"), step("add", 1), 0),
        # 2^63 - 1 is never passed: the counter wraps before.
        (asks("le", 2**63 - 1), step("add", 1), 2**63 - 3),
        (asks("lt", 9), body((COUNT, VALUE), (), (0, 1)), 0),
    ],
)
def test_what_does_not_count_has_no_bound(test: Graph, doing: Graph, start: int | None) -> None:
    assert most_steps(test, doing, [start, None], OTHERWISE) == OTHERWISE


def test_the_nearest_bound_counts() -> None:
    assert most_steps(asks("lt", 2000), step("add", 1), [0, None], OTHERWISE) == OTHERWISE
    flags = (
        apply_formula("lt", (0, 2), FLAG),
        apply_formula("lt", (0, 3), FLAG),
        apply_formula("and", (4, 5), FLAG),
    )
    both = body((COUNT, VALUE), flags, (6,), (np.array(9), np.array(7)))
    assert most_steps(both, step("add", 1), [0, None], OTHERWISE) == 7
