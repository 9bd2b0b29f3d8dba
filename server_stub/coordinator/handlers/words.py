"""What people write for others to read: bounded, in plain characters, on as many lines as fit.

Owns: the one check of such texts. Must not: judge what they say.
"""

from __future__ import annotations

import unicodedata

from gpugoblin.errors import CoordinatorError

__all__ = ["line", "paragraphs"]


def line(field: str, text: str, most: int, *, least: int = 1) -> str:
    """One line of text, spaces made single.

    Raises:
        CoordinatorError: `words_too_short`, `words_too_long`, `words_unprintable`.
    """
    return _checked(field, " ".join(text.split()), least, most)


def paragraphs(field: str, text: str, most: int, *, least: int = 1) -> str:
    """Lines of text, without spaces at their ends and with at most one empty line in a row.

    Raises:
        CoordinatorError: as `line`.
    """
    lines: list[str] = []
    for one in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        clean = " ".join(one.split())
        if clean or (lines and lines[-1]):
            lines.append(clean)
    return _checked(field, "\n".join(lines).strip(), least, most)


def _checked(field: str, text: str, least: int, most: int) -> str:
    if len(text) < least:
        raise CoordinatorError("words_too_short", field=field, least=least, size=len(text))
    if len(text) > most:
        raise CoordinatorError("words_too_long", field=field, most=most, size=len(text))
    for letter in text:
        # Control and format characters reorder what a reviewer reads; private ones show nothing.
        if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn"):
            raise CoordinatorError(
                "words_unprintable", field=field, code_point=f"U+{ord(letter):04X}"
            )
    return text
