"""Derives the polynomials of the exact class and prints `gpugoblin/catalog/polynomials.py`.

    .venv/bin/python scripts/derive_polynomials.py > gpugoblin/catalog/polynomials.py

Each is a minimax fit by Lawson's iteration (C. L. Lawson, 1961: least squares on Chebyshev points
with weights that grow where the error is large), in float64, whose values are known to 1e-15; the
coefficients are then rounded to float32 one after the other, highest power last, with the rest
fitted anew. The error of a whole function, with its rounding, is what the tests measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Values = np.ndarray
POINTS = 4001


def fit(function: Callable[[Values], Values], weight: Callable[[Values], Values],
        low: float, high: float, degree: int) -> tuple[list[float], float]:  # fmt: skip
    """Coefficients, highest power first, each a float32; the largest weighted error."""
    places = np.cos(np.linspace(0, np.pi, POINTS))
    at = (low + high) / 2 + (high - low) / 2 * places
    wanted, scale = function(at), weight(at)
    fixed: list[float] = []
    for power in range(degree + 1):
        rest = wanted - sum(c * at**p for p, c in enumerate(fixed))
        found = _lawson(at, rest, scale, power, degree)
        fixed.append(float(np.float32(found[0])))
    error = np.abs(sum(c * at**p for p, c in enumerate(fixed)) - wanted) * scale
    return fixed[::-1], float(error.max())


def _lawson(at: Values, wanted: Values, scale: Values, lowest: int, degree: int) -> Values:
    reach = np.abs(at).max()
    columns = np.stack([(at / reach) ** p for p in range(lowest, degree + 1)], axis=1)
    share = np.ones_like(at)
    best, least = np.zeros(columns.shape[1]), math.inf
    for _ in range(60):
        root = np.sqrt(share) * scale
        found = np.linalg.lstsq(columns * root[:, None], wanted * root, rcond=None)[0]
        error = np.abs(columns @ found - wanted) * scale
        if error.max() < least:
            best, least = found, error.max()
        share = share * (error / error.mean() + 1e-3)
        share /= share.sum()
    return best / reach ** np.arange(lowest, degree + 1)


def each(function: Callable[[float], float]) -> Callable[[Values], Values]:
    return lambda at: np.array([function(float(x)) for x in at])


def _ones(at: Values) -> Values:
    return np.ones_like(at)


def _inverse_erf(x: float) -> float:
    low, high = 0.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        if math.erfc(middle) > 1.0 - x:
            low = middle
        else:
            high = middle
    return low


def _by_width(width: float, root: bool) -> float:
    """erfinv(x) / x where -log(1 - x^2) is `width` (or its square, shifted by 3)."""
    whole = (width + 3.0) ** 2 if root else width + 2.5
    if whole < 1e-9:
        return math.sqrt(math.pi) / 2
    x = math.sqrt(-math.expm1(-whole))
    if x < 0.99:
        return _inverse_erf(x) / x
    tail = -math.expm1(0.5 * math.log1p(-math.exp(-whole)))  # 1 - x
    low, high = 0.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle) > tail else (low, middle)
    return low / x


def _erfc_exponent(t: float) -> float:
    """log(erfc(x) / t) + x^2 for t = 1 / (1 + x / 2)."""
    x = 2.0 / t - 2.0
    return math.log(math.erfc(x) / t) + x * x


TABLE: dict[str, tuple[str, Callable[[], tuple[list[float], float]]]] = {
    "EXP": (
        "(exp(x) - 1 - x) / x^2 on [-0.347, 0.347]",
        lambda: fit(each(lambda x: (math.expm1(x) - x) / (x * x) if abs(x) > 1e-4
                         else 0.5 + x / 6 + x * x / 24), lambda x: x * x, -0.347, 0.347, 4),
    ),
    "EXPM1": (
        "(exp(x) - 1 - x) / x^2 on [-0.5, 0.5]",
        lambda: fit(each(lambda x: (math.expm1(x) - x) / (x * x) if abs(x) > 1e-4
                         else 0.5 + x / 6 + x * x / 24), lambda x: np.abs(x) + 1e-3, -0.5, 0.5, 5),
    ),
    "LOG": (
        "(log(1 + x) - x + x^2 / 2) / x^3 on [sqrt(1/2) - 1, sqrt(2) - 1]",
        lambda: fit(each(lambda x: (math.log1p(x) - x + x * x / 2) / x**3 if abs(x) > 1e-2
                         else 1 / 3 - x / 4 + x * x / 5 - x**3 / 6 + x**4 / 7 - x**5 / 8
                         + x**6 / 9 - x**7 / 10), lambda x: x * x, -0.2929, 0.4143, 8),
    ),
    "TANH": (
        "(tanh(x) / x - 1) / x^2 in x^2 on [0, 0.625]",
        lambda: fit(each(lambda z: (math.tanh(math.sqrt(z)) / math.sqrt(z) - 1) / z if z > 1e-4
                         else -1 / 3 + 2 * z / 15 - 17 * z * z / 315), lambda z: z,
                    0.0, 0.625**2, 5),
    ),
    "ERF_SMALL": (
        "erf(x) / x - 1 in x^2 on [0, 0.93]",
        lambda: fit(each(lambda z: math.erf(math.sqrt(z)) / math.sqrt(z) - 1 if z > 1e-12
                         else 2 / math.sqrt(math.pi) - 1), _ones, 0.0, 0.87, 6),
    ),
    "ERF_LARGE": (
        "log(erfc(x)) on [0.93, 4]",
        lambda: fit(each(lambda x: math.log(math.erfc(x))),
                    lambda x: np.array([math.erfc(a) for a in x]), 0.93, 4.0, 8),
    ),
    "SIN": (
        "(sin(x) / x - 1) / x^2 in x^2 on [0, pi/4]",
        lambda: fit(each(lambda z: (math.sin(math.sqrt(z)) / math.sqrt(z) - 1) / z if z > 1e-4
                         else -1 / 6 + z / 120 - z * z / 5040), lambda z: z, 0.0, 0.6169, 3),
    ),
    "COS": (
        "(cos(x) - 1 + x^2 / 2) / x^4 in x^2 on [0, pi/4]",
        lambda: fit(each(lambda z: (math.cos(math.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-2
                         else 1 / 24 - z / 720 + z * z / 40320 - z**3 / 3628800),
                    lambda z: z * z, 0.0, 0.6169, 3),
    ),
    "ATAN": (
        "(atan(x) / x - 1) / x^2 in x^2 on [0, tan(pi/8)]",
        lambda: fit(each(lambda z: (math.atan(math.sqrt(z)) / math.sqrt(z) - 1) / z if z > 1e-4
                         else -1 / 3 + z / 5 - z * z / 7), lambda z: z, 0.0, 0.17158, 4),
    ),
    "ERFC": (
        "log(erfc(x) / t) + x^2 in t = 1 / (1 + x / 2) on x in [0, 10.1]",
        lambda: fit(each(_erfc_exponent), _ones, 0.165, 1.0, 9),
    ),
    "ERFINV_CENTRE": (
        "erfinv(x) / x in -log(1 - x^2) - 2.5 up to 5",
        lambda: fit(each(lambda w: _by_width(w, False)), _ones, -2.5, 2.5, 8),
    ),
    "ERFINV_TAIL": (
        "erfinv(x) / x in sqrt(-log(1 - x^2)) - 3, from 5 on",
        lambda: fit(each(lambda w: _by_width(w, True)), _ones, math.sqrt(5) - 3, 1.1, 8),
    ),
}  # fmt: skip

HEADER = '''"""Coefficients of the exact class's polynomials: float32, highest power first.

Owns: the numbers, made by `scripts/derive_polynomials.py`, which says how. The error beside each is
that of the polynomial alone, weighted for the relative error of the function that it serves.
"""

from typing import Final

'''


def main() -> None:
    names = sorted(TABLE)
    print(HEADER, end="")
    print("__all__ = [")
    print("".join(f'    "{name}",\n' for name in names), end="")
    print("]")
    for name in names:
        what, derive = TABLE[name]
        coefficients, error = derive()
        print(f"\n{name}: Final = (")
        print("".join(f"    {c!r},\n" for c in coefficients), end="")
        print(f')\n"""{what}: {error:.1e}."""')


if __name__ == "__main__":
    main()
