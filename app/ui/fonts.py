"""Whether this machine can show the letters of a language, and what helps when it cannot.

Owns: which writing each language needs. Must not: install anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from PySide6.QtGui import QFontDatabase

from app.control.texts import LANGUAGES

__all__ = ["missing_font"]

_System = QFontDatabase.WritingSystem
_NEEDED: Final[Mapping[str, tuple[QFontDatabase.WritingSystem, str]]] = {
    "ja": (_System.Japanese, "fonts-noto-cjk"),
    "ru": (_System.Cyrillic, "fonts-dejavu-core"),
    "zh": (_System.SimplifiedChinese, "fonts-noto-cjk"),
}
"""Writing, and Debian's package with a font for it; other languages are written in Latin."""


def missing_font(language: str) -> str:
    """Empty when there is a font; else what to say, in English, since that can be shown."""
    needed = _NEEDED.get(language)
    if needed is None or needed[0] in QFontDatabase.writingSystems():
        return ""
    return (
        f"No font on this machine shows {LANGUAGES[language]} ({language}), so this is English. "
        f"Install one, on Debian: sudo apt install {needed[1]}"
    )
