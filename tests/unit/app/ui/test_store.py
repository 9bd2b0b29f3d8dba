"""Settings: read, changed, refused, undone, and changed by somebody else."""

from __future__ import annotations

from collections.abc import Callable

from app.control.messages import SettingsSet
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def test_a_change_reaches_the_agent_and_comes_back(
    context: Context, served: ServedAgent, until: Until
) -> None:
    context.store.set({"away.after_minutes": 10})
    until(lambda: context.store.values["away.after_minutes"] == 10)
    assert served.agent.values["away.after_minutes"] == 10


def test_what_is_the_same_is_not_sent(context: Context, served: ServedAgent, until: Until) -> None:
    context.store.set({"away.after_minutes": 5})
    context.store.set({"away.after_minutes": 6})
    until(lambda: context.store.values["away.after_minutes"] == 6)
    assert sum(isinstance(one, SettingsSet) for one in served.asked) == 1


def test_changes_can_be_undone_in_order(context: Context, until: Until) -> None:
    store = context.store
    assert not store.can_undo
    for minutes in (10, 20):
        store.set({"away.after_minutes": minutes})
        until(lambda minutes=minutes: store.values["away.after_minutes"] == minutes)  # type: ignore[misc]
    store.undo()
    until(lambda: store.values["away.after_minutes"] == 10)
    store.undo()
    until(lambda: store.values["away.after_minutes"] == 5)
    assert not store.can_undo


def test_a_refusal_is_told_and_changes_nothing(context: Context, until: Until) -> None:
    refused: list[str] = []
    context.store.refused.connect(refused.append)
    context.store.set({"no.such.setting": 1})
    until(lambda: bool(refused))
    assert "no.such.setting" not in context.store.values
    assert not context.store.can_undo


def test_a_change_by_somebody_else_is_not_overwritten(
    context: Context, served: ServedAgent, until: Until
) -> None:
    refused: list[str] = []
    context.store.refused.connect(refused.append)
    served.agent.revision += 1
    served.agent.values["away.after_minutes"] = 42
    context.store.set({"away.after_minutes": 7})
    until(lambda: bool(refused))
    until(lambda: context.store.values["away.after_minutes"] == 42)


def test_profiles_fix_what_they_decide(context: Context, until: Until) -> None:
    assert context.store.is_fixed("hours.spans")
    context.store.set({"profile": "custom"})
    until(lambda: not context.store.is_fixed("hours.spans"))
    assert not context.store.is_fixed("heat.card_stop_c")


def test_changes_in_quick_succession_all_hold(
    context: Context, served: ServedAgent, until: Callable[[Callable[[], bool]], None]
) -> None:
    refused: list[str] = []
    store = context.store
    store.refused.connect(refused.append)
    for percent in (90, 80, 70):
        store.set({"duty.percent": percent})
    store.set({"profile": "nights"})
    until(lambda: store.values.get("profile") == "nights")
    assert served.agent.values["duty.percent"] == 70
    assert refused == []
