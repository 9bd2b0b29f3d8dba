"""Naming a coordinator: sent to the agent, whose refusal is shown."""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot

from app.control.messages import SettingsSet
from app.ui.pages.coordinator import ADDRESS, CERTIFICATE, CoordinatorPart
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def part_of(context: Context, qtbot: QtBot) -> CoordinatorPart:
    part = CoordinatorPart(context)
    qtbot.addWidget(part)
    part.show()
    return part


def sent(served: ServedAgent) -> list[dict[str, object]]:
    return [dict(one.values) for one in served.asked if isinstance(one, SettingsSet)]


def test_address_and_fingerprint_go_to_the_agent(
    context: Context, served: ServedAgent, qtbot: QtBot, until: Until
) -> None:
    part = part_of(context, qtbot)
    part.address.clear()
    part.button.click()
    assert sent(served) == []
    part.address.setText(" https://new.example.org ")
    part.certificate.setText("ab" * 32)
    part.button.click()
    until(lambda: context.store.values.get(ADDRESS) == "https://new.example.org")
    assert sent(served) == [{ADDRESS: "https://new.example.org", CERTIFICATE: "ab" * 32}]
    assert "asks this coordinator" in part.answer.text()


def test_what_the_agent_refuses_is_said_and_stays_to_be_mended(
    context: Context, qtbot: QtBot
) -> None:
    part = part_of(context, qtbot)
    context.store.refused.emit("Somebody else's change.")
    assert not part.answer.isVisible()
    part.address.setText("nonsense")
    part.button.click()
    context.store.refused.emit("The address nonsense cannot be used.")
    assert part.answer.text() == "The address nonsense cannot be used."
    assert part.address.text() == "nonsense"


def test_without_an_agent_nothing_is_sent(context: Context, qtbot: QtBot) -> None:
    part = part_of(context, qtbot)
    context.link.close()
    part.address.setText("https://new.example.org")
    part.button.click()
    assert "does not run" in part.answer.text()
