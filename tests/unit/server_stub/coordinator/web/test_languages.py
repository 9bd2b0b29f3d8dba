"""Choice of a language, and catalogs that say everything."""

from __future__ import annotations

import re

import pytest
from babel.messages.pofile import read_po

from server_stub.coordinator.web.languages import CATALOGS, LANGUAGES, negotiate, translations
from server_stub.coordinator.web.messages import extracted

OTHERS = sorted(set(LANGUAGES) - {"en"})


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("fr", "fr"),
        ("fr-CH, fr;q=0.9, en;q=0.8", "fr"),
        ("de, ja;q=0.5, en;q=0.4", "ja"),
        ("en;q=0.1, ru;q=0.9", "ru"),
        ("xx", "en"),
        ("fr;q=nonsense", "en"),
        (", ;q=, *" * 50, "en"),
    ],
)
def test_negotiation(accepted: str, language: str) -> None:
    assert negotiate(accepted) == language


@pytest.mark.parametrize("language", OTHERS)
def test_catalogs_say_everything_and_nothing_else(language: str) -> None:
    with (CATALOGS / f"{language}.po").open("rb") as source:
        catalog = read_po(source)
    said = {message.id: message for message in catalog if message.id}
    wanted = set(extracted())
    assert wanted - set(said) == set(), "run scripts/messages.py and translate"
    assert set(said) - wanted == set(), "run scripts/messages.py"
    assert [name for name, one in said.items() if not one.string or one.fuzzy] == []


@pytest.mark.parametrize("language", OTHERS)
def test_translations_keep_the_fields(language: str) -> None:
    gettext = translations(language).gettext
    for text in extracted():
        fields = r"\{[^}]*\}|%\([a-z_]+\)s"
        assert sorted(re.findall(fields, gettext(text))) == sorted(re.findall(fields, text)), text


def test_an_unknown_language_is_english() -> None:
    assert translations("xx").gettext("Status") == "Status"
