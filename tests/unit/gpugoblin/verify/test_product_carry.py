"""The product check where something is carried in: no honest order of summation is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import Array
from gpugoblin.verify import projection
from gpugoblin.verify.forms import ProductForm
from gpugoblin.verify.product import ProductCheck, ProductVerdict, project_right
from tests.helpers.orders import CARRIES, ORDERS, make_carry

SIZES = [1e-6, 1.0, 10.0, 1e3, 1e6]


def judge(a: Array, b: Array, carry: Array, result: Array) -> ProductVerdict:
    form = ProductForm(
        0, 1, 2, False, False, (), a.shape[0], a.shape[1], b.shape[1], "float32"
    )  # fmt: skip
    check = ProductCheck(form, a, project_right(form, b), carry)
    check.take(0, result.copy())
    return check.verdict()


@pytest.fixture(autouse=True)
def same_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same vectors in every run."""
    random = np.random.Generator(np.random.Philox(key=7))
    monkeypatch.setattr(projection, "_generator", lambda: random)


def operands(random: np.random.Generator, inner: int, kind: str) -> tuple[Array, Array]:
    a, b = random.standard_normal((16, inner)), random.standard_normal((inner, 256))
    if kind == "diagonal":
        a, b = a + 1000 * np.eye(*a.shape), b + 1000 * np.eye(*b.shape)
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["normal", "diagonal"])
def test_no_honest_order_is_refused(order: str, kind: str) -> None:
    random = np.random.default_rng(11)
    worst = 0.0
    for inner in (16, 400):
        a, b = operands(random, inner, kind)
        for carry_kind in CARRIES:
            for times in SIZES:
                carry = make_carry(random, carry_kind, a @ b, times)
                verdict = judge(a, b, carry, ORDERS[order](a, b, carry))
                assert verdict.accepted, (inner, carry_kind, times, verdict)
                worst = max(worst, verdict.error / verdict.threshold)
    assert worst < 0.9


@pytest.mark.parametrize("order", ["sequential from the carry", "fused from the carry"])
@pytest.mark.parametrize("carry_kind", ["alike", "diagonal", "constant"])
def test_a_long_sum_that_begins_with_a_large_carry(order: str, carry_kind: str) -> None:
    """Each of its 8192 roundings is of the carry's size."""
    random = np.random.default_rng(12)
    a = random.standard_normal((16, 8192)).astype(np.float32)
    b = random.standard_normal((8192, 64)).astype(np.float32)
    carry = make_carry(random, carry_kind, a @ b, 100.0)
    verdict = judge(a, b, carry, ORDERS[order](a, b, carry))
    assert verdict.error < 0.9 * verdict.threshold


@pytest.mark.parametrize("carry_kind", CARRIES)
@pytest.mark.parametrize("inner", [64, 1024])
def test_a_wrong_element_beside_a_carry_is_caught(carry_kind: str, inner: int) -> None:
    """3e-4 of the largest row's root mean square, of the carry or of the product, at 4096 columns.

    Beside a carry much larger than the product that is all that can be asked: an honest sum is
    rounded in units of the carry."""
    random = np.random.default_rng(5)
    a = random.standard_normal((8, inner)).astype(np.float32)
    b = random.standard_normal((inner, 4096)).astype(np.float32)
    for times in (1e-3, 1.0, 1e3):
        carry = make_carry(random, carry_kind, a @ b, times)
        honest = a @ b + carry
        sizes = [np.square(one.astype(np.float64)).mean(axis=1) for one in (a @ b, carry, honest)]
        rms = float(np.sqrt(np.max(sizes)))
        if carry_kind == "uneven":
            rms = max(rms, float(np.abs(carry).max()) / 8)  # some blocks hold most of the row
        for _ in range(10):
            wrong = honest.copy()
            wrong[random.integers(8), random.integers(4096)] += np.float32(3e-4 * rms)
            verdict = judge(a, b, carry, wrong)
            assert verdict.code == "product_mismatch", (times, verdict)


def test_a_product_that_was_left_out_is_caught() -> None:
    """The carry alone, although it is a thousand times larger than what belongs to it."""
    random = np.random.default_rng(6)
    a, b = operands(random, 256, "normal")
    carry = make_carry(random, "alike", a @ b, 1000.0)
    assert judge(a, b, carry, carry).code == "product_mismatch"
    wrong = carry + np.float32(1.001) * (a @ b)
    assert judge(a, b, carry, a @ b + carry).accepted
    assert judge(a, b, carry, carry - a @ b).code == "product_mismatch"
    assert judge(a, b, np.zeros_like(carry), wrong - carry).code == "product_mismatch"
