"""The settings as a window sees them: every declaration, as an item. Owns that mapping."""

from __future__ import annotations

from typing import Final, Literal

from app.agent.settings import AGENT
from app.control.messages import SettingItem
from app.policy.choices import PROFILES
from app.policy.settings import POLICY, PRICES
from gpugoblin.settings import Setting

__all__ = ["setting_items"]

Registry = Literal["policy", "agent"]

_REGISTRIES: Final[tuple[tuple[Registry, tuple[Setting, ...]], ...]] = (
    ("policy", POLICY),
    ("policy", PRICES),
    ("agent", AGENT),
)


def setting_items() -> tuple[SettingItem, ...]:
    """Every setting, the policy's first."""
    return tuple(
        SettingItem(
            setting.name,
            registry,
            setting.kind,
            "" if setting.default is None else setting.default,
            setting.unit,
            setting.description,
            setting.minimum,
            setting.maximum,
            setting.choices,
            setting.is_live,
            tuple(profile for profile, fixed in PROFILES.items() if setting.name in fixed),
        )
        for registry, declared in _REGISTRIES
        for setting in declared
    )
