"""Matrices of many kinds, and factorizations of them that are honest: in float32 by LAPACK, where
SciPy is installed (NumPy's are in float64), and one operation after the other, each rounded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.ops.spectral import signs
from gpugoblin.catalog.spec import Array
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from tests.helpers.programs import float32

__all__ = ["DEVICES", "MATRICES", "OPERATORS", "graph_of", "operands_of"]

OPERATORS: Final = ("cholesky", "lu", "qr", "eigh", "svd", "triangular_solve", "solve")

Random = np.random.Generator


def _values(random: Random, n: int, values: Array) -> Array:
    """A matrix of these singular values."""
    u, v = (np.linalg.qr(random.standard_normal((n, n)))[0] for _ in range(2))
    return np.asarray((u * values) @ v)


def _graded(n: int, decades: float) -> Array:
    return np.asarray(10.0 ** np.linspace(0, -decades, n))


def _growing(random: Random, n: int) -> Array:
    """Where partial pivoting lets elements double in each of the last columns, to 2^5."""
    found, few = np.eye(n), min(n, 6)
    found[-few:, -few:] -= np.tril(np.ones((few, few)), -1)
    found[:, -1] = 1
    return np.asarray(found)


MATRICES: Final[dict[str, Callable[[Random, int], Array]]] = {
    "normal": lambda random, n: random.standard_normal((n, n)),
    "of one sign": lambda random, n: random.random((n, n)),
    "small integers": lambda random, n: random.integers(-3, 4, (n, n)),
    "rows graded": lambda random, n: random.standard_normal((n, n)) * _graded(n, 8)[:, None],
    "columns graded": lambda random, n: random.standard_normal((n, n)) * _graded(n, 8),
    "both graded": lambda random, n: (
        random.standard_normal((n, n)) * _graded(n, 5)[:, None] * _graded(n, 5)
    ),
    "nearly singular": lambda random, n: _values(random, n, _graded(n, 7)),
    "two clusters": lambda random, n: _values(random, n, np.where(np.arange(n) % 2, 1.0, 1e-4)),
    "of low rank": lambda random, n: (
        random.standard_normal((n, n // 2 + 1)) @ random.standard_normal((n // 2 + 1, n))
    ),
    "orthogonal": lambda random, n: _values(random, n, np.ones(n)),
    "diagonal": lambda random, n: np.diag(random.standard_normal(n) * _graded(n, 6)),
    "sparse": lambda random, n: (
        random.standard_normal((n, n)) * (random.random((n, n)) < 0.1) + np.eye(n)
    ),
    "long tails": lambda random, n: random.standard_cauchy((n, n)),
    "of distances": lambda random, n: np.exp(
        -((np.arange(n)[:, None] - np.arange(n)) ** 2) / (0.1 * n * n + 1)
    ),
    "growing": _growing,
    "tiny": lambda random, n: random.standard_normal((n, n)) * 1e-17,
    "huge": lambda random, n: random.standard_normal((n, n)) * 1e15,
}


def operands_of(operator: str, kind: str, n: int, seed: int = 0) -> list[Array]:
    """float32 operands; a third as many columns more or fewer where they need not be square."""
    random = np.random.default_rng(seed + 1000 * n)
    a = MATRICES[kind](random, n).astype(np.float64)
    if operator == "cholesky":
        a = a @ a.T
        a += np.eye(n) * 4e-6 * n * max(np.diagonal(a).max(), 1e-30)
    elif operator == "eigh":
        a = a + a.T
    elif operator in ("qr", "svd"):
        cut = n - n // 3
        a = (a, a[:, :cut], a[:cut])[seed % 3]
    elif operator == "triangular_solve":
        a = np.tril(a) + np.diag(np.where(np.diagonal(a) == 0, 1.0, 0.0))
    found = [a.astype(np.float32)]
    if operator in ("triangular_solve", "solve"):
        right = random.standard_normal((n, 1 + n // 2)) * _graded(1 + n // 2, 4)
        found.append(right.astype(np.float32))
    return found


def graph_of(operator: str, operands: list[Array]) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(float32(*one.shape)) for one in operands]
    given = {"lower": True} if operator == "triangular_solve" else {}
    return builder.build(list(builder.add_many(operator, values, **given)))


# devices


def _chol_plain(a: Array) -> tuple[Array, ...]:
    left = (a + a.T) / np.float32(2)
    found = np.zeros_like(left)
    for k in range(a.shape[0]):
        found[k:, k] = left[k:, k] / np.sqrt(left[k, k])
        left[k:, k:] -= found[k:, k, None] * found[k:, k]
    return (found,)


def _lu(a: Array) -> tuple[Array, ...]:
    both, order = a.copy(), np.arange(a.shape[0])
    for k in range(a.shape[0]):
        best = k + int(np.argmax(np.abs(both[k:, k])))
        both[[k, best]], order[[k, best]] = both[[best, k]], order[[best, k]]
        if both[k, k]:
            both[k + 1 :, k] /= both[k, k]
        both[k + 1 :, k + 1 :] -= both[k + 1 :, k, None] * both[k, k + 1 :]
    return both, order


def _qr(a: Array) -> tuple[Array, ...]:
    """Householder's reflections."""
    r, least = a.copy(), min(a.shape)
    q = np.eye(a.shape[0], least, dtype=np.float32)
    kept = []
    for k in range(least):
        v = r[k:, k].copy()
        size = np.float32(np.linalg.norm(v.astype(np.float64)))
        v[0] += size if v[0] >= 0 else -size
        length = np.float32(np.linalg.norm(v.astype(np.float64)))
        if length:
            v /= length
        r[k:, k:] -= 2 * v[:, None] * (v @ r[k:, k:])
        r[k + 1 :, k] = 0
        kept.append(v)
    for k in reversed(range(least)):
        q[k:] -= 2 * kept[k][:, None] * (kept[k] @ q[k:])
    r = np.triu(r[:least])
    sign = np.where(np.diagonal(r) < 0, np.float32(-1), np.float32(1))
    return q * sign, r * sign[:, None]


def _substituted(a: Array, b: Array) -> tuple[Array, ...]:
    left, found = b.copy(), np.zeros_like(b)
    for k in range(a.shape[0]):
        found[k] = left[k] / a[k, k]
        left[k + 1 :] -= a[k + 1 :, k, None] * found[k]
    return (found,)


def _rounded(operator: str) -> Callable[..., tuple[Array, ...]]:
    """In float64, rounded once, as our own backend on processors does it."""

    def run(*operands: Array) -> tuple[Array, ...]:
        given = {"lower": True, "transpose": False, "unit_diagonal": False}
        return registry.get(operator, 1).reference(list(operands), given)

    return run


def _lapack() -> dict[str, Callable[..., tuple[Array, ...]]]:
    """SciPy's, which computes in the precision of its operands."""
    scipy: Any = import_module("scipy.linalg")
    plain: Any = import_module("scipy.linalg.lapack")

    def lu(a: Array) -> tuple[Array, ...]:
        both, swaps, _ = plain.sgetrf(a)
        order = np.arange(a.shape[0])
        for row, other in enumerate(swaps):
            order[[row, other]] = order[[other, row]]
        return both, order

    def qr(a: Array) -> tuple[Array, ...]:
        q, r = scipy.qr(a, mode="economic")
        sign = np.where(np.diagonal(r) < 0, np.float32(-1), np.float32(1))
        return q * sign, np.triu(r * sign[:, None])

    def eigh(a: Array) -> tuple[Array, ...]:
        # The driver `evr` is not within what the catalog asks: its float32 vectors are not as
        # orthogonal.
        values, vectors = scipy.eigh((a + a.T) / np.float32(2), driver="evd")
        return vectors * signs(vectors).astype(np.float32), values

    def svd(a: Array) -> tuple[Array, ...]:
        u, values, vh = scipy.svd(a, full_matrices=False)
        sign = signs(u).astype(np.float32)
        return u * sign, values, vh * sign.T

    def solve(a: Array, b: Array) -> tuple[Array, ...]:
        *_, found, singular = plain.sgesv(a, b)
        if singular:
            raise np.linalg.LinAlgError
        return (found,)

    return {
        "cholesky": lambda a: (scipy.cholesky((a + a.T) / np.float32(2), lower=True),),
        "lu": lu,
        "qr": qr,
        "eigh": eigh,
        "svd": svd,
        "triangular_solve": lambda a, b: (scipy.solve_triangular(a, b, lower=True),),
        "solve": solve,
    }


DEVICES: Final[dict[str, dict[str, Callable[..., tuple[Array, ...]]]]] = {
    operator: {"rounded": _rounded(operator)} for operator in OPERATORS
}
DEVICES["cholesky"]["plain"] = _chol_plain
DEVICES["lu"]["plain"] = _lu
DEVICES["qr"]["plain"] = _qr
DEVICES["triangular_solve"]["plain"] = _substituted
with contextlib.suppress(ImportError):
    for _name, _run in _lapack().items():
        DEVICES[_name]["LAPACK"] = _run
