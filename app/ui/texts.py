"""The words of the interface, in the reader's language.

Owns: `_`, which every text of the interface passes. Must not: know a window.
"""

from __future__ import annotations

import gettext

__all__ = ["_", "use"]

_current: list[gettext.NullTranslations] = [gettext.NullTranslations()]


def use(translations: gettext.NullTranslations) -> None:
    """Speaks with these translations from now on."""
    _current[0] = translations


def _(text: str) -> str:
    """The text in the reader's language; English when nobody translated it."""
    return _current[0].gettext(text)
