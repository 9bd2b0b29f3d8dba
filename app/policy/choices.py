"""What the owner chose, as the rules read it: settings under a profile, with a card's own values.

Owns: how a profile and a card's own values are laid over the settings. Must not: declare a setting
(`settings.py`) or act on one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from app.policy.snapshot import CardFacts
from gpugoblin.settings import Value

__all__ = ["PROFILES", "Choices", "own_value"]

PROFILES: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "away": {"away.when_present": "stop", "hours.spans": ()},
        "nights": {"away.when_present": "stop", "hours.spans": ("daily 22:00-07:00",)},
        "always": {"away.when_present": "slow", "hours.spans": ()},
        "custom": {},
    }
)
"""What a profile decides, whatever the settings of these names say."""


@dataclass(frozen=True, slots=True)
class Choices:
    """All policy settings by name, checked; `own`: those that one card has for itself."""

    values: Mapping[str, Value]
    own: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    _of: dict[tuple[int, str], Choices] = field(
        default_factory=dict, compare=False, repr=False, hash=False
    )

    def flag(self, name: str) -> bool:
        return bool(self._value(name))

    def number(self, name: str) -> float:
        value = self._value(name)
        if isinstance(value, (str, tuple)):
            raise TypeError(f"{name} is not a number")
        return value

    def text(self, name: str) -> str:
        return str(self._value(name))

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._value(name)
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is not a list")
        return value

    def _value(self, name: str) -> Value:
        if name in self.own:
            return self.own[name]
        fixed = PROFILES[str(self.values["profile"])]
        return fixed[name] if name in fixed else self.values[name]

    def of(self, card: CardFacts) -> Choices:
        """The choices for one card: its own values win over the others."""
        key = (card.card, card.identity)
        found = self._of.get(key)
        if found is None:
            own: dict[str, Value] = {}
            for text in self.texts("cards.own"):
                whose, name, value = own_value(text)
                if whose in (str(card.card), card.identity):
                    own[name] = value
            found = Choices(self.values, MappingProxyType(own)) if own else self
            self._of[key] = found
        return found


@lru_cache(maxsize=256)
def own_value(text: str) -> tuple[str, str, Value]:
    """The parts of `CARD NAME = VALUE`.

    Raises:
        ValueError: it has another form.
    """
    whose, _, assignment = text.partition(" ")
    name, equals, literal = assignment.partition("=")
    if not whose or not equals or not name.strip():
        raise ValueError('write it like "1 heat.card_stop_c = 70"')
    value: object = tomllib.loads(f"value = {literal.strip()}")["value"]
    if isinstance(value, list):
        value = tuple(str(item) for item in value)
    if not isinstance(value, (str, int, float, bool, tuple)):
        raise ValueError("its value is not one that a setting takes")
    return whose, name.strip(), value
