"""Cards that were found: measured one after another, and chosen."""

from __future__ import annotations

from collections.abc import Callable

from app.control.messages import SelfTest
from app.ui.firstrun.cards import CardsStep
from app.ui.firstrun.wizard import Wizard
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def test_cards_are_measured_one_after_another_and_chosen(
    wizard: Wizard, served: ServedAgent, until: Until
) -> None:
    wizard.open("cards")
    step = wizard.steps["cards"]
    assert isinstance(step, CardsStep)
    until(lambda: all("Measured" in row.result.text() for row in step.rows.values()))
    assert "12 Tflop/s" in step.rows[1].result.text()
    assert [one.card for one in served.asked if isinstance(one, SelfTest)] == [0, 1]
    until(lambda: step._effect.text().startswith("Right now this would lend"))
    step.rows[0].lend.click()
    until(lambda: served.agent.values["cards.lend"] == (step.rows[1].identity,))
    step.rows[1].lend.click()
    assert step.rows[1].lend.isChecked(), "one card stays"
    assert "pause" in step._hint.text()


def test_without_an_agent_it_says_so_and_measures_when_there_is_one(
    wizard: Wizard, until: Until
) -> None:
    wizard.open("cards")
    step = wizard.steps["cards"]
    assert isinstance(step, CardsStep)
    until(lambda: all("Measured" in row.result.text() for row in step.rows.values()))
    step.context.link.close()
    step.show_items({})
    step.rows[0].again.click()
    assert "does not run" in step.rows[0].result.text()
    step.context.link.open()
    until(lambda: step.context.link.is_connected)
    step.rows[0].again.click()
    until(lambda: "Measured" in step.rows[0].result.text())
