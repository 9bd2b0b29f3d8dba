"""NumPy's notation means what NumPy's does."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

A, B, C = (np.random.default_rng(n).normal(size=(3, 3, 3)).astype(np.float32) for n in range(3))
EQUATIONS = [
    "bik,bkj->bij", "bik,bjk->bij", "ijk->kij", "ijk->", "iij->j", "iii->i", "ijk,ijk->ijk",
    "ijk,jkl,lmn->imn", "...ij,...jk->...ik", "ij...,jk->k...", "abc,cd", "ijk,k->ji", "ijj->i",
    "i...->...", "ijk,abc->",
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_the_same(equation: str) -> None:
    operands = []
    for term, array in zip(equation.split("->")[0].split(","), (A, B, C), strict=False):
        letters = sum(letter.isalpha() for letter in term)
        dots = "..." in term
        operands.append(array if dots or letters == 3 else array[(0,) * (3 - letters)])
    agree(gg.einsum(equation, *operands), np.einsum(equation, *operands), absolute=1e-4)


def test_what_is_refused() -> None:
    for equation in ("ij->i", "ijk,ijk->", "ijk->iij", "ijk->z", "i-k->i"):
        with pytest.raises(CaptureError, match="argument_refused"):
            gg.einsum(equation, A)
    with pytest.raises(CaptureError, match="shapes_differ"):
        gg.einsum("ij,jk->ik", A[0], np.ones((2, 2), np.float32))
