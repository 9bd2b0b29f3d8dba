"""Texts of people: bounded and printable."""

from __future__ import annotations

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.handlers.words import line, paragraphs


def test_spaces_are_made_single() -> None:
    assert line("f", "  a \t b\n c ", 20) == "a b c"
    assert paragraphs("f", "\r\n a  b \r\n\r\n\n\nc\n", 20) == "a b\n\nc"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "words_too_short"),
        ("x" * 21, "words_too_long"),
        ("a\u202eb", "words_unprintable"),
        ("a\x00b", "words_unprintable"),
    ],
)
def test_refusals(text: str, code: str) -> None:
    for check in (line, paragraphs):
        with pytest.raises(CoordinatorError, match=code):
            check("f", text, 20)


def test_every_script_may_be_written() -> None:
    for text in ("Привет", "研究室", "é̂", "שלום", "हिन्दी", "🧌"):
        assert line("f", text, 20) == text
