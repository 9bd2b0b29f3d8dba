"""Complex arithmetic as pairs of reals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.torch_programs import assert_same, numbers, torch_or_skip

torch = torch_or_skip()


@pytest.mark.parametrize(
    "f",
    [
        lambda z, w: z + w,
        lambda z, w: z - 2 * w,
        lambda z, w: z * w,
        lambda z, w: z / w,
        lambda z, w: z * 1j + 2,
        lambda z, w: z / 3.0,
        lambda z, w: (z.conj() * w).real,
        lambda z, w: z.abs() + z.imag,
        lambda z, w: -z,
        lambda z, w: z.angle(),
        lambda z, w: torch.sgn(z),
        lambda z, w: z @ w,
        lambda z, w: torch.view_as_complex(torch.view_as_real(z)),
        lambda z, w: torch.polar(z.abs(), w.real),
        lambda z, w: torch.linalg.vector_norm(z),
        lambda z, w: z.sum(0) + w.mean(),
    ],
)
def test_two_operands(f: Callable[..., Any]) -> None:
    z = torch.complex(numbers(3, 3), numbers(3, 3, seed=1))
    w = torch.complex(numbers(3, 3, seed=2), numbers(3, 3, seed=3))
    assert_same(f, z, w)
