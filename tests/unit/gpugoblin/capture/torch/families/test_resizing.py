"""Antialiased resizing is torch's."""

from __future__ import annotations

import pytest

from tests.helpers.torch_programs import assert_gradients, assert_same, numbers, torch_or_skip

torch = torch_or_skip()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (9, 5), (1, 12)])
def test_smaller_and_larger(mode: str, corners: bool, size: tuple[int, int]) -> None:
    def resized(x: object) -> object:
        return torch.nn.functional.interpolate(
            x, size=size, mode=mode, align_corners=corners, antialias=True
        )

    assert_same(resized, numbers(1, 2, 6, 7), tolerance=2e-6)
    assert_gradients(resized, numbers(1, 2, 6, 7))
