"""NumPy's own functions on lazy arrays: `numpy.exp(x)` is `gg.exp(x)`.

Owns: which NumPy ufunc is which function here. One that has no counterpart is refused with the
researcher's line; nothing is ever computed behind their back.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCALAR_OF_UFUNC"]

SCALAR_OF_UFUNC: Final = {
    "absolute": "abs", "add": "add", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "arctan2": "atan2", "bitwise_and": "and", "bitwise_count": "popcount", "bitwise_or": "or",
    "bitwise_xor": "xor", "cbrt": "cbrt", "ceil": "ceil", "cos": "cos", "cosh": "cosh",
    "divide": "div", "equal": "eq", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
    "floor": "floor", "floor_divide": "floordiv", "fmax": "fmax", "fmin": "fmin", "fmod": "fmod",
    "greater": "gt", "greater_equal": "ge", "invert": "not", "isfinite": "isfinite",
    "isinf": "isinf", "isnan": "isnan", "left_shift": "shl", "less": "lt", "less_equal": "le",
    "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2", "maximum": "max",
    "minimum": "min", "multiply": "mul", "negative": "neg", "not_equal": "ne", "power": "pow",
    "reciprocal": "recip", "remainder": "mod", "right_shift": "shr", "rint": "round",
    "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "subtract": "sub", "tan": "tan",
    "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
"""Name of a NumPy ufunc -> scalar function of the catalog."""
