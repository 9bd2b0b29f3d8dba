from __future__ import annotations

import math
import struct
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.formula_eval import evaluate_formula, formula_errors
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import FLOATS, Array

WISHED = {
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "neg",
    "abs",
    "min",
    "max",
    "where",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
    "exp",
    "log",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "recip",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "isnan",
    "isinf",
}


def rounded_to(value: float, bits: int) -> float:
    """The nearest number of so many bits, ties to even."""
    mantissa, power = math.frexp(value)
    return math.ldexp(round(mantissa * 2.0**bits), power - bits)


PLAIN: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "expm1": math.expm1,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "recip": lambda x: 1 / x,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "mod": lambda x, y: x % y,
    "fmod": math.fmod,
    "min": min,
    "max": max,
    "atan2": math.atan2,
    "floordiv": lambda x, y: x // y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: ~x,
    "shl": lambda x, y: x << y,
    "shr": lambda x, y: x >> y,
    "where": lambda c, x, y: x if c else y,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "cbrt": math.cbrt,
    "erfc": math.erfc,
    "erfinv": lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2),
    "lgamma": math.lgamma,
    "digamma": lambda x: (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "sinc": lambda x: math.sin(math.pi * x) / (math.pi * x),
    "hypot": math.hypot,
    "logaddexp": lambda x, y: max(x, y) + math.log1p(math.exp(-abs(x - y))),
    "xlogy": lambda x, y: x * math.log(y),
    "clamp": lambda x, low, high: min(max(x, low), high),
    "fmin": min,
    "fmax": max,
    "copysign": math.copysign,
    "nextafter": lambda x, y: float(np.nextafter(np.float32(x), np.float32(y))),
    "truncdiv": lambda x, y: int(x / y),
    "float_bits": lambda x: struct.unpack("<i", struct.pack("<f", x))[0],
    "bits_float": lambda x: struct.unpack("<f", struct.pack("<i", x))[0],
    "popcount": int.bit_count,
    "round_bfloat16": lambda x: rounded_to(x, 8),
    "round_float16": lambda x: struct.unpack("<e", struct.pack("<e", x))[0],
    "round_tf32": lambda x: rounded_to(x, 11),
    "ushr": lambda x, y: x >> y,
    "signbit": lambda x: math.copysign(1, x) < 0,
}
WIDE = {"digamma": 1e-4}
"""Plain functions that are only known within this."""


def test_the_table_has_all_that_was_wished_and_its_keys_are_the_names() -> None:
    assert set(SCALARS) >= WISHED
    assert all(name == function.name for name, function in SCALARS.items())
    assert set(PLAIN) == set(SCALARS)


def operands(name: str, dtype: str, count: int, seed: int) -> list[Array]:
    """Operands on which the plain function is defined."""
    generator = np.random.default_rng(seed)
    arity = SCALARS[name].arity
    if dtype not in FLOATS:
        narrow = np.iinfo(dtype).bits < 32
        least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if narrow else (-9, 9)
        shifting = name in ("shl", "shr", "pow", "ushr")
        least = 0 if shifting or name == "popcount" else least
        drawn = [generator.integers(least, most + 1, count).astype(dtype) for _ in range(arity)]
        if shifting:
            drawn[1] = generator.integers(0, 10, count).astype(dtype)
        if name in ("mod", "fmod", "floordiv", "truncdiv"):
            drawn[1][drawn[1] == 0] = 3
        return drawn
    low: float
    high: float
    inside = ("asin", "acos", "atanh", "erfinv")
    positive = ("log", "log2", "log10", "sqrt", "rsqrt", "recip", "pow", "log1p", "xlogy")
    low, high = (-0.999, 0.999) if name in inside else (-20, 20)
    if name in (*positive, "lgamma", "digamma", "acosh"):
        low, high = 1.0 if name == "acosh" else 1e-3, 20
    return [generator.uniform(low, high, count).astype(dtype) for _ in range(arity)]


def wrap(number: int, dtype: np.dtype[Any]) -> int:
    """The number of the dtype that has the same last bits."""
    info = np.iinfo(dtype)
    return (number - int(info.min)) % 2**info.bits + int(info.min)


CASES = [
    (name, dtype)
    for name, function in SCALARS.items()
    for dtype in function.accepts
    if dtype != "bool"
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_reference_is_the_plain_function(name: str, dtype: str) -> None:
    drawn = operands(name, dtype, 60, 1)
    if name == "where":
        drawn[0] = drawn[0] > 0
    result = evaluate_formula(call_formula(name), drawn)
    plain = PLAIN[name]
    if (name, dtype) == ("nextafter", "float64"):
        plain = math.nextafter
    expected = [plain(*(x.item() for x in row)) for row in zip(*drawn, strict=True)]
    if result.dtype.kind in "iu":
        wrapped = [wrap(int(number), result.dtype) for number in expected]
        np.testing.assert_array_equal(result, np.array(wrapped, result.dtype))
        return
    within = WIDE.get(name, 6e-8)
    np.testing.assert_allclose(result, np.array(expected, np.float64), rtol=within, atol=1e-14)


@pytest.mark.parametrize("name", [n for n, f in SCALARS.items() if "float32" in f.accepts])
def test_numpy_in_float32_stays_within_the_declared_rounding(name: str) -> None:
    drawn = operands(name, "float32", 20_000, 2)
    if name == "where":
        drawn[0] = drawn[0] > 0
    reference = evaluate_formula(call_formula(name), drawn)
    with np.errstate(all="ignore"):
        result = np.asarray(SCALARS[name].evaluate(*drawn))
    error = formula_errors(call_formula(name), drawn, [None] * len(drawn))
    if error is None:
        np.testing.assert_array_equal(result, reference)
    else:
        assert (np.abs(result.astype(float) - reference) <= error).all()
        size = np.abs(reference)
        usual = (size > 1e-3) & (size < 100)
        beside = 1e-6 + 2 * SCALARS[name].absolute
        assert (error[usual] < 1e-4 * size[usual] + beside).all(), "the bound is not sharp"


def test_a_ufunc_is_given_where_there_is_one() -> None:
    assert SCALARS["add"].ufunc is np.add
    assert SCALARS["erf"].ufunc is None


@pytest.mark.parametrize(
    ("name", "dtypes", "result"),
    [
        ("add", ("int32", "int32"), "int32"),
        ("add", ("int32", "int64"), None),
        ("add", ("bool", "bool"), None),
        ("div", ("int32", "int32"), None),
        ("eq", ("bool", "bool"), "bool"),
        ("lt", ("float32", "float32"), "bool"),
        ("and", ("float32", "float32"), None),
        ("not", ("bool",), "bool"),
        ("where", ("bool", "int64", "int64"), "int64"),
        ("where", ("int32", "int64", "int64"), None),
        ("where", ("bool", "int64", "int32"), None),
        ("isnan", ("float32",), "bool"),
        ("float_bits", ("float32",), "int32"),
        ("float_bits", ("int32",), None),
        ("bits_float", ("int32",), "float32"),
        ("clamp", ("int64", "int64", "int64"), "int64"),
        ("isnan", ("int32",), None),
    ],
)
def test_dtype_rules(name: str, dtypes: tuple[str, ...], result: str | None) -> None:
    assert SCALARS[name].dtype_rule(dtypes) == result
