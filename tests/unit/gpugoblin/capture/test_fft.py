"""Frequencies, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

X = np.arange(15, dtype=np.float32).reshape(3, 5)


def test_frequencies() -> None:
    for n in (4, 7):
        agree(gg.fft.fftfreq(n, d=0.5), np.fft.fftfreq(n, 0.5))
        agree(gg.fft.rfftfreq(n, d=0.5), np.fft.rfftfreq(n, 0.5))


def test_shifts() -> None:
    agree(gg.fft.fftshift(X), np.fft.fftshift(X))
    agree(gg.fft.ifftshift(X, axes=1), np.fft.ifftshift(X, axes=1))
    agree(gg.fft.fftshift(np.float32(2)), np.float32(2))


def test_transforms_are_refused() -> None:
    with pytest.raises(CaptureError, match="complex"):
        gg.fft.rfft(X)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = gg.fft.nonsense
