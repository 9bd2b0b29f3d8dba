"""Each name is the function that it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture import special_functions
from gpugoblin.catalog.scalars import SCALARS
from tests.helpers.lazy import compute

X = np.array([0.25, 0.5, 0.75], np.float32)
EXPECTED = {
    "cbrt": np.cbrt(X),
    "digamma": np.array([-4.2274535, -1.9635100, -1.0858599], np.float32),
    "erfc": np.array([math.erfc(x) for x in X], np.float32),
    "erfinv": np.array([0.22531206, 0.47693628, 0.81341985], np.float32),
    "lgamma": np.array([math.lgamma(x) for x in X], np.float32),
    "round_bfloat16": X,
    "round_float16": X,
    "round_tf32": X,
    "sinc": np.sinc(X),
    "softplus": np.log1p(np.exp(X)),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_functions_of_one_number(name: str) -> None:
    np.testing.assert_allclose(compute(getattr(gg, name)(gg.array(X))), EXPECTED[name], rtol=1e-5)


def test_functions_of_two_numbers() -> None:
    holes = np.array([np.nan, 1, 0], np.float32)
    np.testing.assert_array_equal(compute(gg.fmax(gg.array(holes), X)), [0.25, 1, 0.75])
    np.testing.assert_array_equal(compute(gg.fmin(gg.array(holes), X)), [0.25, 0.5, 0])
    product = compute(gg.xlogy(gg.array(np.float32([0, 1, 2])), np.float32([0, 1, math.e])))
    np.testing.assert_allclose(product, [0, 0, 2], rtol=1e-6)


def test_functions_of_integers() -> None:
    whole = gg.array(np.array([-7, 7, -1], np.int32))
    np.testing.assert_array_equal(compute(gg.truncate_divide(whole, 2)), [-3, 3, 0])
    np.testing.assert_array_equal(compute(gg.bitwise_count(whole)), [30, 3, 32])
    shifted = compute(gg.bitwise_right_shift_unsigned(whole, 28))
    np.testing.assert_array_equal(shifted, [15, 0, 15])


def test_every_scalar_function_has_a_name_or_is_only_inside() -> None:
    standard = {
        *("sub", "mul", "div", "floordiv", "mod", "neg", "recip", "eq", "ne", "lt", "le", "gt"),
        *("ge", "and", "or", "xor", "not", "shl", "shr", "clamp", "min", "max", "sign", "where"),
    }
    own = {"popcount": "bitwise_count", "ushr": "bitwise_right_shift_unsigned"}
    own["truncdiv"] = "truncate_divide"
    bits = {"float_bits", "bits_float"}
    nameless = {
        name
        for name in SCALARS
        if name not in standard | bits and not hasattr(gg, own.get(name, name))
    }
    assert not nameless
    assert set(special_functions.__all__) <= set(dir(gg))
