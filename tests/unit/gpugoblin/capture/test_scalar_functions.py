"""Every elementwise function, against NumPy and the standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture import scalar_functions
from gpugoblin.capture.lower import lower
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.graph.interpret import interpret

FLOATS = np.array([0.25, 0.5, 0.75], np.float32)
OWN = {
    "erf": np.vectorize(math.erf), "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
INTEGERS = {name for name in scalar_functions.__all__ if name.startswith("bitwise")}
BOOLS = {name for name in scalar_functions.__all__ if name.startswith("logical")}


def numbers_for(name: str) -> np.ndarray[Any, Any]:
    if name in INTEGERS:
        return np.array([1, 2, 3])
    return np.array([True, False, True]) if name in BOOLS else FLOATS


@pytest.mark.parametrize("name", scalar_functions.__all__)
def test_it_is_what_its_name_says(name: str) -> None:
    function = getattr(gg, name)
    numbers = numbers_for(name)
    count = function.__code__.co_argcount
    lazy = function(*[gg.array(numbers)] * count)
    (result,) = interpret(lower([lazy.value]).graph, [numbers])
    expected = OWN.get(name) or getattr(np, name)
    np.testing.assert_allclose(result, expected(*[numbers] * count), rtol=1e-6, atol=1e-6)
    assert function.__doc__


WITHOUT_A_NAME = {
    *("acosh", "asinh", "atanh", "bits_float", "cbrt", "clamp", "copysign", "digamma", "erfc"),
    *("erfinv", "float_bits", "fmax", "fmin", "hypot", "lgamma", "logaddexp", "nextafter"),
    *("popcount", "round_bfloat16", "round_float16", "round_tf32", "signbit", "sinc", "softplus"),
    *("truncdiv", "ushr", "xlogy"),
}
"""Functions that graphs have and the array front end reaches in other ways, or not yet."""


def test_every_scalar_function_of_the_catalog_can_be_said() -> None:
    said = set()
    for name in scalar_functions.__all__:
        function = getattr(gg, name)
        lazy = function(*[gg.array(numbers_for(name))] * function.__code__.co_argcount)
        said.add(lazy.value.node.operator.partition(":")[2])
    assert set(SCALARS) - said == {"floordiv", "where"} | WITHOUT_A_NAME
    assert (gg.array([7]) // 2).value.node.operator == "scalar:floordiv"


def test_numbers_alone_become_an_array() -> None:
    assert gg.maximum(1, 2).shape == ()
