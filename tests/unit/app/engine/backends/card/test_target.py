from __future__ import annotations

import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.powers import divide
from app.engine.backends.card.target import LEAST, Target, target, written_for


def length() -> int:
    kernel = Kernel(1)
    kernel.store(0, 0, divide(kernel.load("float32", 0, 1), kernel.load("float32", 0, 2)))
    return len(kernel.words())


def test_a_card_that_divides_is_trusted() -> None:
    plain = length()
    with written_for(Target(divides=True)):
        assert length() < plain / 2
    assert length() == plain


def test_what_was_before_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="stop"), written_for(Target(divides=True)):
        raise ValueError("stop")
    assert target() == LEAST
