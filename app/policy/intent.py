"""What the owner said. A separate input that no rule overwrites.

Owns: the four intents and their verdict. Must not: be changed by a rule, a lab or the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from app.policy.rule import Reason, Ruling, Verdict

__all__ = ["LEND", "Intent", "IntentKind", "intent_verdict", "is_draining", "is_over"]

IntentKind = Literal["resume", "pause", "finish", "stop"]


@dataclass(frozen=True, slots=True)
class Intent:
    """The owner's word for one card.

    Args:
        kind: `resume`: lend as the rules allow. `pause`: the card is free at once, until `until_s`
            or until resumed. `finish`: the running task ends, then as `pause`. `stop`: the card is
            not lent, and its grants are given up, until resumed by hand.
        intent: the id that whoever asked made up, so that asking twice changes nothing.
        until_s: Unix seconds; for `pause` and `finish` only.
        drained: a `finish` whose last task has ended.
    """

    kind: IntentKind
    intent: str = ""
    until_s: float | None = None
    drained: bool = False


LEND: Final = Intent("resume")

_STOPPED: Final = {
    "pause": "owner_paused",
    "finish": "owner_finished",
    "stop": "owner_stopped",
}


def is_over(intent: Intent, now_s: float) -> bool:
    """True when the time of a pause has passed: it counts as `resume` from then on."""
    return intent.until_s is not None and now_s >= intent.until_s and intent.kind != "stop"


def is_draining(intent: Intent, now_s: float) -> bool:
    """True while the running task may end but none may begin."""
    return intent.kind == "finish" and not intent.drained and not is_over(intent, now_s)


def intent_verdict(intent: Intent, now_s: float) -> Verdict | None:
    """The owner's own verdict for a card; None when the owner leaves it to the rules."""
    if intent.kind == "resume" or is_over(intent, now_s):
        return None
    if is_draining(intent, now_s):
        return Verdict(Ruling.RUN, Reason("owner_finishing"), intent.until_s)
    until_s = None if intent.kind == "stop" else intent.until_s
    return Verdict(Ruling.STOP, Reason(_STOPPED[intent.kind]), until_s)
