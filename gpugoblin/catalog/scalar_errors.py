"""How errors of operands become errors of a scalar function's result.

Owns: one rule per shape of function (monotone, Lipschitz, product, comparison, ...). A rule gets
the operands in float64 (integers and bools as they are), their errors, and the exact result; it
bounds how far the function can move within the errors. Rounding of the function itself is added
by the caller. Infinity means "any result", and is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.catalog.rounding import Error
from gpugoblin.catalog.spec import Array
from gpugoblin.catalog.special_functions import digamma

__all__ = [
    "Spread",
    "angle",
    "between",
    "comparison",
    "corners",
    "cosh",
    "erf",
    "extremum",
    "gamma_log",
    "gamma_slope",
    "lipschitz",
    "logic",
    "modulo",
    "monotone",
    "nothing",
    "power",
    "product",
    "quotient",
    "reciprocal",
    "select",
    "sign_copied",
    "sign_tested",
    "tangent",
    "total",
    "unbounded",
    "unless_wrapped",
]

Spread = Callable[[Sequence[Array], Sequence[Error], Array], Array]


def _errors(errors: Sequence[Error]) -> list[Array]:
    return [np.zeros(()) if error is None else error for error in errors]


def _settle(spread: Array, *errors: Array) -> Array:
    """0 where every operand is exact; infinite where one is unbounded or the rule found NaN."""
    exact: Array | bool = True
    open_end: Array | bool = False
    for error in errors:
        exact = exact & (error == 0)
        open_end = open_end | np.isinf(error)
    return np.where(exact, 0.0, np.where(open_end | np.isnan(spread), np.inf, spread))


def monotone(function: Callable[[Array], Array]) -> Spread:
    """For a function that never turns: its values at both ends. Steps are covered too."""

    def rule(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
        (error,) = _errors(errors)
        value = operands[0]
        above = np.abs(function(value + error) - result)
        below = np.abs(function(value - error) - result)
        return _settle(np.where(above == below, above, np.maximum(above, below)), error)

    return rule


def lipschitz(constant: float, most: float = float("inf")) -> Spread:
    """For a function whose slope is at most `constant` and whose range is at most `most` wide."""

    def rule(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
        (error,) = _errors(errors)
        return _settle(np.minimum(constant * error, most), error)

    return rule


def total(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """Sums and differences: the errors add up."""
    left, right = _errors(errors)
    return _settle(left + right, left, right)


def extremum(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """The larger or the smaller of two moves no further than either of them."""
    left, right = _errors(errors)
    return _settle(np.maximum(left, right), left, right)


def product(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    x, y = (np.abs(operand.astype(np.float64)) for operand in operands)
    ex, ey = _errors(errors)
    return _settle(_times(x, ey) + _times(y, ex) + ex * ey, ex, ey)


def _times(size: Array, error: Array) -> Array:
    """size * error, where an exact operand (error 0) adds nothing even beside infinity."""
    return np.where(error == 0, 0.0, size * error)


def quotient(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    y = np.abs(operands[1])
    ex, ey = _errors(errors)
    spread = (_times(np.abs(result), ey) + ex) / (y - ey)
    return _settle(np.where((y <= ey) & (ey > 0), np.inf, spread), ex, ey)


def reciprocal(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    x = np.abs(operands[0])
    (error,) = _errors(errors)
    return _settle(np.where(x <= error, np.inf, error / (x * (x - error))), error)


def tangent(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    (error,) = _errors(errors)
    low, high = operands[0] - error, operands[0] + error
    pole = np.floor(low / np.pi + 0.5) != np.floor(high / np.pi + 0.5)
    spread = np.maximum(np.abs(np.tan(low) - result), np.abs(np.tan(high) - result))
    return _settle(np.where(pole, np.inf, spread), error)


def _between_poles(operands: Sequence[Array], error: Array) -> tuple[Array, Array, Array]:
    """The ends of the operand's interval, and where a pole of gamma may be in it."""
    low, high = operands[0] - error, operands[0] + error
    return low, high, (low <= 0) & ((np.floor(low) != np.floor(high)) | (low == np.floor(low)))


def gamma_slope(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """digamma rises between its poles."""
    (error,) = _errors(errors)
    low, high, pole = _between_poles(operands, error)
    spread = np.maximum(np.abs(digamma(low) - result), np.abs(digamma(high) - result))
    return _settle(np.where(pole, np.inf, spread), error)


def gamma_log(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """log gamma: its slope is digamma, which is largest at an end."""
    (error,) = _errors(errors)
    low, high, pole = _between_poles(operands, error)
    slope = np.maximum(np.abs(digamma(low)), np.abs(digamma(high)))
    return _settle(np.where(pole, np.inf, error * slope), error)


def corners(function: Callable[[Array, Array], Array]) -> Spread:
    """For a function of two operands that is monotone in each while the other is held."""

    def rule(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
        x, y = operands
        ex, ey = _errors(errors)
        ends = [np.abs(function(x + a * ex, y + b * ey) - result) for a in (1, -1) for b in (1, -1)]
        return _settle(np.maximum.reduce(ends), ex, ey)

    return rule


def between(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """clamp moves no further than any of its three operands."""
    found = _errors(errors)
    return _settle(np.maximum.reduce(np.broadcast_arrays(*found)), *found)


def sign_copied(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """copysign: the first operand's error, or twice its size where the sign is open."""
    ex, ey = _errors(errors)
    turned = (ey > 0) & (np.abs(operands[1]) <= ey)
    return _settle(np.where(turned, 2.0 * (np.abs(operands[0]) + ex), ex), ex, ey)


def sign_tested(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """signbit: 1 where the error reaches zero."""
    (error,) = _errors(errors)
    return np.where((error > 0) & ~(np.abs(operands[0]) > error), 1.0, 0.0)


def cosh(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    (error,) = _errors(errors)
    return _settle(error * np.sinh(np.abs(operands[0]) + error), error)


def erf(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """By the largest slope in reach, 2 / sqrt(pi) exp(-x^2) at the point nearest to 0: the
    reference is too slow to be asked twice more."""
    (error,) = _errors(errors)
    nearest = np.maximum(np.abs(operands[0]) - error, 0.0)
    slope = 2.0 / np.sqrt(np.pi) * np.exp(-nearest * nearest)
    return _settle(np.minimum(error * slope, 2.0), error)


def angle(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """atan2: the angle that the box can turn, or a full turn across the cut or the origin."""
    y, x = operands
    ey, ex = _errors(errors)
    radius, reach = np.hypot(x, y), np.hypot(ex, ey)
    turn = np.arcsin(np.minimum(1.0, np.where(reach == 0, 0.0, reach / radius)))
    free = (reach >= radius) | ((x - ex <= 0) & (np.abs(y) <= ey))
    return _settle(np.where(free, 2 * np.pi, turn), ex, ey)


def power(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """Monotone in each operand over positive bases; else only exact whole exponents are bounded."""
    x, y = operands
    ex, ey = _errors(errors)
    if x.dtype.kind != "f":
        return _settle(np.full(np.shape(result), np.inf), ex, ey)
    corners = [np.abs(np.power(x + a * ex, y + b * ey) - result) for a in (1, -1) for b in (1, -1)]
    spread = np.maximum.reduce(corners)
    touches = x - ex <= 0
    whole = (ey == 0) & (y == np.floor(y)) & (y >= 0)
    inside = np.maximum(spread, np.abs(result))
    return _settle(np.where(touches, np.where(whole, inside, np.inf), spread), ex, ey)


def modulo(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """Off by a whole divisor where the quotient may cross an integer; by anything where the divisor
    may be zero."""
    x, y = operands
    ex, ey = _errors(errors)
    if x.dtype.kind != "f":
        return _settle(np.full(np.shape(result), np.inf), ex, ey)
    exact = x / y
    slack = quotient(operands, errors, exact)
    low, high = np.floor(exact - slack), np.floor(exact + slack)
    near = ex + (np.abs(exact) + 1) * ey
    same = (low == high) & np.isfinite(y)
    nothing = (ey > 0) & (np.abs(y) <= ey)
    spread = np.where(same, near, np.abs(y) + ey + near)
    return _settle(np.where(nothing, np.inf, spread), ex, ey)


def comparison(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """1 where the order of two numbers within their errors is open, else 0."""
    left, right = (operand.astype(np.float64) for operand in operands)
    ex, ey = _errors(errors)
    distance = np.abs(left - right)
    open_order = (distance <= ex + ey) & ((ex > 0) | (ey > 0))
    return np.where(open_order | np.isinf(ex) | np.isinf(ey), 1.0, 0.0)


def logic(function: Callable[..., Array]) -> Spread:
    """Bools: 1 where the open operands decide. Integers bit by bit: unbounded when not exact."""

    def rule(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
        found = _errors(errors)
        if operands[0].dtype.kind != "b":
            return _settle(np.full(np.shape(result), np.inf), *found)
        spread = np.zeros(np.shape(result), bool)
        for flips in range(1, 2 ** len(operands)):
            moved = [
                operand ^ (error > 0) if flips >> place & 1 else operand
                for place, (operand, error) in enumerate(zip(operands, found, strict=True))
            ]
            spread |= function(*moved) != result
        return spread.astype(np.float64)

    return rule


def select(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """`where`: the chosen operand's error, or the reach of both where the choice is open."""
    condition, first, second = operands
    ec, ef, es = _errors(errors)
    chosen = np.where(condition, ef, es)
    exact = np.asarray(result, np.float64)
    either = np.maximum(
        np.abs(first.astype(np.float64) - exact) + ef,
        np.abs(second.astype(np.float64) - exact) + es,
    )
    return np.where(ec > 0, np.where(np.isnan(either), np.inf, either), chosen)


def nothing(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """isnan and its kin: only an unbounded operand can change the answer."""
    (error,) = _errors(errors)
    return np.where(np.isinf(error), 1.0, 0.0)


def unbounded(operands: Sequence[Array], errors: Sequence[Error], result: Array) -> Array:
    """Nothing is promised where an operand is not exact."""
    found = _errors(errors)
    return _settle(np.full(np.shape(result), np.inf), *found)


def unless_wrapped(result: Array, spread: Array) -> Array:
    """The spread of integers; infinite where it reaches over an end of their range, since what lies
    behind wraps to the other end. Beyond 2^52 float64 does not tell whole numbers apart."""
    info = np.iinfo(result.dtype)
    size = result.astype(np.float64)
    room = np.minimum(float(info.max) - size, size - float(info.min))
    return np.where((spread > room) | (spread > 2.0**52), np.inf, spread)
