"""The rules in force, in the order in which their reasons are shown."""

from __future__ import annotations

from typing import Final

from app.policy.rule import Rule
from app.policy.rules.away import AWAY
from app.policy.rules.foreign import CARD_MEMORY, FOREIGN
from app.policy.rules.games import GAMES
from app.policy.rules.heat import FANS, HEAT
from app.policy.rules.hours import DEAR, HOURS
from app.policy.rules.load import LOAD, ROOM
from app.policy.rules.network import NETWORK
from app.policy.rules.power import BATTERY, DUTY, POWER_CAP
from app.policy.rules.present import ASLEEP, CARDS

__all__ = ["RULES"]

RULES: Final[tuple[Rule, ...]] = (
    CARDS,
    ASLEEP,
    AWAY,
    GAMES,
    FOREIGN,
    CARD_MEMORY,
    HOURS,
    DEAR,
    HEAT,
    FANS,
    BATTERY,
    NETWORK,
    LOAD,
    ROOM,
    POWER_CAP,
    DUTY,
)
