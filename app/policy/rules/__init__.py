"""The rules in force, in the order in which their reasons are shown."""

from __future__ import annotations

from typing import Final

from app.policy.rule import Rule
from app.policy.rules.always import always

__all__ = ["RULES"]

RULES: Final[tuple[Rule, ...]] = (always,)
