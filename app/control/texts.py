"""The words of window and commands, in the reader's language.

Owns: `_`, which every text for people passes; which languages there are; the reading of a catalog
(gettext, as the translators write it: `app/locale/LANGUAGE.po`). Must not: know a text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["CATALOGS", "LANGUAGES", "_", "speak", "spoken_language", "wanted_language"]

CATALOGS: Final = Path(__file__).parent.parent / "locale"

LANGUAGES: Final[Mapping[str, str]] = {
    "de": "Deutsch",
    "en": "English",
    "es": "Español",
    "fr": "Français",
    "ja": "日本語",
    "pt": "Português",
    "ru": "Русский",
    "zh": "中文",
}
"""Code and own name of every language."""

_spoken: dict[str, str] = {}
_language: list[str] = ["en"]


def _(text: str) -> str:
    """The text in the reader's language; English when nobody translated it."""
    return _spoken.get(text, text)


def speak(language: str) -> None:
    """Speaks this language from now on; English, and what is not one of ours, is the code's own."""
    _spoken.clear()
    _language[:] = [language if language in LANGUAGES else "en"]
    path = CATALOGS / f"{language}.po"
    if language == "en" or language not in LANGUAGES or not path.is_file():
        return
    # Here, since English needs none of it. The package says no types of its own.
    import polib  # type: ignore[import-untyped]

    for entry in polib.pofile(str(path)):
        if entry.msgstr and not entry.fuzzy:
            _spoken[entry.msgid] = entry.msgstr


def spoken_language() -> str:
    """The language that is spoken now."""
    return _language[0]


def wanted_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language that the environment asks for, in gettext's order; `en` for none of ours."""
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        for part in environment.get(name, "").split(":"):
            language = part.partition(".")[0].partition("_")[0].partition("-")[0].lower()
            if language in LANGUAGES:
                return language
        if environment.get(name):
            break
    return "en"
