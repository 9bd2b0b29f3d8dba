from __future__ import annotations

import math

import numpy as np
import pytest

from gpugoblin.catalog import special_functions as special


@pytest.mark.parametrize(
    ("function", "at", "wanted"),
    [
        (special.digamma, 1.0, -0.57721566490153286),
        (special.digamma, 0.5, -1.9635100260214235),
        (special.digamma, -0.5, 0.03648997397857652),
        (special.digamma, 100.0, 4.600161852738087),
        (special.digamma, 0.0, -math.inf),
        (special.digamma, -2.0, math.nan),
        (special.log_gamma, 0.5, 0.5723649429247001),
        (special.log_gamma, -3.0, math.inf),
        (special.log_gamma, -math.inf, math.inf),
        (special.erfc, 5.0, 1.5374597944280349e-12),
        (special.erfinv, 0.5, 0.4769362762044699),
        (special.erfinv, 1.0, math.inf),
        (special.erfinv, 1.5, math.nan),
        (special.sinc, 0.0, 1.0),
        (special.sinc, 0.5, 2 / math.pi),
    ],
)
def test_known_values(function: object, at: float, wanted: float) -> None:
    assert callable(function)
    found = function(np.array([at]))
    np.testing.assert_allclose(found, [wanted], rtol=2e-14, atol=1e-15)
    assert function(np.array([at], np.float32)).dtype == np.float32


def test_erfinv_inverts_erf() -> None:
    x = np.concatenate([np.linspace(-5, 5, 101), [1e-9, 3e-5, 1e-4]])
    y = np.array([math.erf(value) for value in x])
    inside = np.abs(x) < 3.5
    np.testing.assert_allclose(special.erfinv(y)[inside], x[inside], rtol=1e-9, atol=1e-20)


def test_digamma_is_the_derivative_of_log_gamma() -> None:
    x = np.array([-2.5, -0.3, 0.2, 1.4616, 3.0, 40.0])
    step = 1e-5
    slope = (special.log_gamma(x + step) - special.log_gamma(x - step)) / (2 * step)
    np.testing.assert_allclose(special.digamma(x), slope, rtol=1e-6, atol=1e-6)
