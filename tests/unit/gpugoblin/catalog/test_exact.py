"""The orders of class `exact`, written once more as plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.exact import (
    EXACT_BLOCK,
    EXACT_RULES,
    canonical,
    evaluate_exact,
    has_exact,
    ordered_products,
    ordered_reduce,
)
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.spec import Array


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def nested(terms: Array) -> np.float32:
    """Blocks of 512 one after the other, then the sums of the blocks."""
    while terms.size > 1:
        sums = []
        for start in range(0, terms.size, EXACT_BLOCK):
            block = terms[start : start + EXACT_BLOCK]
            total = block[0]
            for one in block[1:]:
                total = np.float32(total + one)
            sums.append(total)
        terms = np.array(sums, np.float32)
    return np.float32(terms[0])


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1500])
def test_sums_have_the_order_of_the_definition(count: int) -> None:
    terms = drawn(2, count)
    found = ordered_reduce(np.add, terms)
    assert found.tolist() == [nested(row) for row in terms]


def test_a_sum_of_negative_zeros_keeps_its_sign() -> None:
    found = ordered_reduce(np.add, np.full((600,), -0.0, np.float32))
    assert np.signbit(found)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(0, 4), inner=st.integers(0, 40), columns=st.integers(0, 4))
def test_products_add_rounded_products(rows: int, inner: int, columns: int) -> None:
    left, right = drawn(rows, inner), drawn(inner, columns, seed=2)
    found = ordered_products(left, right)
    assert found.shape == (rows, columns)
    for row in range(rows):
        for column in range(columns):
            wanted = nested(left[row] * right[:, column]) if inner else 0.0
            assert found[row, column] == wanted


def test_a_part_of_a_product_has_the_same_bits() -> None:
    left, right = drawn(7, 900), drawn(900, 5, seed=3)
    whole = ordered_products(left, right)
    np.testing.assert_array_equal(ordered_products(left[2:4], right[:, 1:3]), whole[2:4, 1:3])


def test_maxima_that_are_zero_are_positive() -> None:
    given_ = {"function": "max", "axes": (0,), "keepdims": False}
    (found,) = evaluate_exact("reduce@1", [np.array([-0.0, -0.0], np.float32)], given_, True)
    assert not np.signbit(found)


def test_integers_are_the_references() -> None:
    numbers = np.array([[1, 2], [3, 4]], np.int32)
    given_ = {"transpose_a": False, "transpose_b": False}
    (found,) = evaluate_exact("matmul@1", [numbers, numbers], given_, False)
    assert found.tolist() == [[7, 10], [15, 22]]


def test_what_has_the_class() -> None:
    assert has_exact("matmul@1", {}, ["float32"] * 3)
    assert not has_exact("matmul@1", {}, ["float64"] * 3)
    assert not has_exact("cholesky@1", {}, ["float32"] * 2)
    assert has_exact("random@1", {"function": "uniform"}, ["int64", "float32"])
    assert not has_exact("random@1", {"function": "normal"}, ["int64", "float32"])
    assert set(EXACT_RULES) <= set(PRIMITIVES)


def test_one_pattern_for_every_nan() -> None:
    odd = np.array([0x7FC00001, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    assert canonical(odd).view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000]
    whole = np.array([1, 2])
    assert canonical(whole) is whole
