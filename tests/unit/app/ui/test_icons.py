"""Every state has a picture of its own, at every size, and not by colour alone."""

from __future__ import annotations

from typing import get_args

import pytest
from PySide6.QtGui import QImage

from app.ui.facts import State
from app.ui.icons import SIZES, icon, pixmap

STATES = get_args(State)


def greys(image: QImage) -> bytes:
    return bytes(image.convertToFormat(QImage.Format.Format_Alpha8).constBits())


@pytest.mark.parametrize("state", STATES)
def test_all_sizes_are_painted(qapp: object, state: State) -> None:
    made = icon(state)
    assert sorted(size.width() for size in made.availableSizes()) == sorted(SIZES)
    for size in SIZES:
        image = pixmap(state, size).toImage()
        assert any(byte for byte in greys(image))


def test_signs_differ_without_colour(qapp: object) -> None:
    pictures = {}
    for state in STATES:
        image = pixmap(state, 64).toImage()
        bright = bytes(image.convertToFormat(QImage.Format.Format_Grayscale8).constBits())
        shape = bytes(255 if byte > 128 else 0 for byte in greys(image))
        pictures[state] = shape + bytes(255 if byte > 200 else 0 for byte in bright)
    assert len(set(pictures.values())) == len(pictures)
