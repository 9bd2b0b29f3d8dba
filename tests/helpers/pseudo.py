"""A language that nobody speaks: every text is 40 % longer and has letters with marks above.

Owns: the lengthening. Fields of templates stay as they are, since code fills them.
"""

from __future__ import annotations

import re
from typing import Final

from app.control import texts

__all__ = ["longer", "speak_pseudo"]

SHARE: Final = 0.4
_MARKED: Final = str.maketrans("aeiouAEIOU", "åéîöüÅÉÎÖÜ")
_FIELD: Final = re.compile(r"(\{[^}]*\})")


def longer(text: str) -> str:
    """The text with 40 % more letters; at least two more."""
    parts = [
        part if part.startswith("{") else part.translate(_MARKED) for part in _FIELD.split(text)
    ]
    more = max(2, round(SHARE * len(_FIELD.sub("", text))))
    tail = ("~" * 5 + " ") * (more // 6) + "~" * (more % 6)
    return f"{''.join(parts)}{tail}"


class _Longer(dict[str, str]):
    """A catalog that has every text."""

    def get(self, key: str, default: object = None) -> str:  # type: ignore[override] # never absent
        return longer(key)


def speak_pseudo() -> None:
    """Speaks it from now on; `texts.speak` ends it."""
    texts._spoken = _Longer()
