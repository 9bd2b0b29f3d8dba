"""Which labs a card computes for: the owner's two lists. Owns that one question."""

from __future__ import annotations

from app.policy.choices import Choices

__all__ = ["accepts"]


def accepts(choices: Choices, lab: str) -> bool:
    """True when the owner lets this lab's tasks run. A refusal wins over an acceptance."""
    if lab in choices.texts("labs.refuse"):
        return False
    accepted = choices.texts("labs.accept")
    return not accepted or lab in accepted
