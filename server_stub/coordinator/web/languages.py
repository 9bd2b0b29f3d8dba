"""The languages of the pages and letters.

Owns: which there are, the choice for a reader, and their catalogs (gettext, read as the translators
write them: `locale/LANGUAGE.po`). Must not: know a page.
"""

from __future__ import annotations

import functools
import gettext
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from babel import Locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

__all__ = ["CATALOGS", "DEFAULT", "LANGUAGES", "negotiate", "translations"]

LANGUAGES: Final[Mapping[str, str]] = {
    "en": "English",
    "fr": "Français",
    "ja": "日本語",
    "ru": "Русский",
}
"""Code and own name of every language."""

DEFAULT: Final = "en"
CATALOGS: Final = Path(__file__).parent / "locale"
_MAX_PREFERENCES: Final = 20


@functools.cache
def translations(language: str) -> gettext.NullTranslations:
    """The catalog of a language; English, and what is not one of ours, is what the code says."""
    if language == DEFAULT or language not in LANGUAGES:
        return gettext.NullTranslations()
    with (CATALOGS / f"{language}.po").open("rb") as source:
        catalog = read_po(source, locale=Locale.parse(language))
    compiled = io.BytesIO()
    write_mo(compiled, catalog)
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


def negotiate(accepted: str) -> str:
    """The language for an Accept-Language header (RFC 9110, section 12.5.4)."""
    best, best_weight = DEFAULT, 0.0
    for part in accepted.split(",")[:_MAX_PREFERENCES]:
        name, _, quality = part.strip().partition(";q=")
        language = name.strip().lower().partition("-")[0]
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        if language in LANGUAGES and weight > best_weight:
            best, best_weight = language, weight
    return best
