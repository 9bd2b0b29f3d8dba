"""Every setting that a window can change stands on one page, in one group."""

from __future__ import annotations

from collections import Counter

from app.agent.settings import SETTINGS
from app.control.messages import SettingItem
from app.ui.pages.page import Context
from app.ui.pages.settings import HOW_MUCH, LABS, WHEN, groups_of

OWN_WAY = {"profile"}
"""Settings that a page shows in a way of its own."""


def declared() -> list[SettingItem]:
    return [
        SettingItem(one.name, "policy", one.kind, one.default or "", one.unit, one.description,
                    is_live=one.is_live)
        for one in SETTINGS
    ]  # fmt: skip


def test_each_live_setting_stands_on_one_page() -> None:
    found = Counter(
        one.name
        for page in (WHEN, HOW_MUCH, LABS)
        for _title, some in groups_of(declared(), page)
        for one in some
    )
    live = {one.name for one in SETTINGS if one.is_live} - OWN_WAY
    assert set(found) == live
    assert set(found.values()) == {1}


def test_the_longest_prefix_decides() -> None:
    hours = dict(groups_of(declared(), WHEN))["Hours"]
    assert "price.dear_hours" in [one.name for one in hours]
    costs = dict(groups_of(declared(), HOW_MUCH))["Costs"]
    assert "price.dear_hours" not in [one.name for one in costs]


def test_no_group_is_empty(context: Context) -> None:
    some = list(context.store.settings.values())
    for page in (WHEN, HOW_MUCH, LABS):
        assert [title for title, _some in groups_of(some, page)]
