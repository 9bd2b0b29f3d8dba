"""Every setting as a window sees it."""

from __future__ import annotations

from app.agent.registry import setting_items
from app.agent.settings import SETTINGS


def test_all_settings_are_told_with_what_fixes_them() -> None:
    items = {item.name: item for item in setting_items()}
    assert set(items) == {setting.name for setting in SETTINGS}
    assert items["hours.spans"].fixed_by == ("away", "nights", "always")
    assert items["heat.card_stop_c"].registry == "policy"
    assert items["cache.limit_bytes"].registry == "agent"
