"""A language without letters to show it in is said in English."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFontDatabase

from app.control.texts import LANGUAGES
from app.ui.fonts import missing_font


def test_what_the_machine_has_is_not_missed(qapp: object) -> None:
    assert [missing_font(one) for one in ("en", "fr", "de", "es", "pt", "xx")] == [""] * 6


@pytest.mark.parametrize("language", ["ja", "ru", "zh"])
def test_a_writing_that_is_missing_is_named_with_its_package(
    qapp: object, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFontDatabase, "writingSystems", lambda: [])
    line = missing_font(language)
    assert LANGUAGES[language] in line
    assert "apt install fonts-" in line
