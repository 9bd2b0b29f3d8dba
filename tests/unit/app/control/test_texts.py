"""Texts in the reader's language, and English for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.control import texts, words
from app.control.messages import ReasonItem
from app.control.texts import speak, wanted_language


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    speak("en")


@pytest.fixture
def catalogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A language of its own for the test."""
    monkeypatch.setattr(texts, "CATALOGS", tmp_path)
    monkeypatch.setattr(texts, "LANGUAGES", {"en": "English", "xx": "Testish", "yy": "None"})
    (tmp_path / "xx.po").write_text(
        'msgid "a game runs ({games})"\nmsgstr "ludus currit ({games})"\n\n'
        '#, fuzzy\nmsgid "the lid is closed"\nmsgstr "perhaps"\n\n'
        'msgid "the machine goes to sleep"\nmsgstr ""\n'
    )
    return tmp_path


@pytest.mark.usefixtures("catalogs")
def test_reasons_are_said_in_the_language() -> None:
    item = ReasonItem("game_runs", {"games": "Tiny Racer"})
    speak("xx")
    assert words.reason(item) == "ludus currit (Tiny Racer)"
    speak("en")
    assert words.reason(item) == "a game runs (Tiny Racer)"


@pytest.mark.usefixtures("catalogs")
def test_what_is_not_translated_for_sure_stays_english() -> None:
    speak("xx")
    for text in ("the lid is closed", "the machine goes to sleep", "a text that is nowhere"):
        assert texts._(text) == text
    assert texts.spoken_language() == "xx"
    for language in ("yy", "zz"):
        speak(language)
        assert texts._("a game runs ({games})") == "a game runs ({games})"


@pytest.mark.usefixtures("catalogs")
@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "xx_YY.UTF-8"}, "xx"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "xx_YY.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "qq:yy:xx"}, "yy"),
        ({"LC_MESSAGES": "yy_BR.UTF-8", "LANG": "xx_DE"}, "yy"),
        ({"LANG": "xx-Hans"}, "xx"),
    ],
)
def test_the_environment_chooses(environment: dict[str, str], language: str) -> None:
    assert wanted_language(environment) == language
