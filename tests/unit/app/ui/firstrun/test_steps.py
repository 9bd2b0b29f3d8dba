"""Profile and start: what is chosen acts at once and says what it means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.control.messages import SettingsSet
from app.ui.firstrun.steps import ProfileStep, StartStep
from app.ui.firstrun.wizard import Wizard
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def test_a_profile_says_what_it_would_mean_now(
    wizard: Wizard, served: ServedAgent, until: Until
) -> None:
    wizard.open("profile")
    step = wizard.steps["profile"]
    assert isinstance(step, ProfileStep)
    assert step.choices["away"].isChecked(), "the default"
    until(lambda: "would lend nothing" in step._effect.text())
    step.choices["always"].click()
    until(lambda: "(slowly)" in step._effect.text())
    until(lambda: any(isinstance(one, SettingsSet) for one in served.asked))
    assert served.agent.values["profile"] == "always"


def test_the_last_page_switches_the_login_and_says_what_is_missing(
    wizard: Wizard, tmp_path: Path
) -> None:
    wizard.open("start")
    step = wizard.steps["start"]
    assert isinstance(step, StartStep)
    assert "not known to the network" in step._state.text()
    step.switch.click()
    assert list((tmp_path / "autostart").iterdir())
    step.switch.click()
    assert not list((tmp_path / "autostart").iterdir())
