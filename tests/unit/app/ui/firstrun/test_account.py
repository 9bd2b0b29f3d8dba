"""Signing in at the machine: letters, codes, and an agent that went."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from app.control.messages import AgentItem, EnrolIs, SigninBegin, SigninCode
from app.ui.firstrun.account import AccountStep
from app.ui.firstrun.wizard import Wizard
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def page_of(wizard: Wizard) -> AccountStep:
    wizard.open("account")
    page = wizard.steps["account"]
    assert isinstance(page, AccountStep)
    return page


def test_a_letter_then_its_code(wizard: Wizard, served: ServedAgent, until: Until) -> None:
    page = page_of(wizard)
    page._send.click()
    assert not any(isinstance(one, SigninBegin) for one in served.asked), "no address was typed"
    page._mailbox.setText("ann@example.org")
    page._send.click()
    until(lambda: "ann@example.org" in page._answer.text())
    page._digits.setText("12")
    page._sign_in.click()
    until(lambda: "8 digits" in page._answer.text())
    assert not page.is_settled
    page._digits.setText("12345678")
    page._sign_in.click()
    until(lambda: page.is_settled)
    assert [one.code for one in served.asked if isinstance(one, SigninCode)] == ["12", "12345678"]


def test_the_code_of_the_machine_is_shown_too(wizard: Wizard) -> None:
    page = page_of(wizard)
    assert page._code.text() == "ABCD-2345"
    assert "62cc-9bdb-b19a-ec91" in page._fingerprint.text()


def test_an_agent_that_goes_is_said_and_forgotten_when_it_is_back(
    wizard: Wizard, until: Until
) -> None:
    page = page_of(wizard)
    page.context.link.close()
    page.show_items({})
    assert "does not run" in page._state.text()
    page._mailbox.setText("ann@example.org")
    page._begin()
    assert "does not run" in page._answer.text()
    page.context.link.open()
    until(lambda: page._send.isEnabled())
    assert not page._state.isVisible()


def test_who_knows_no_coordinator_is_asked_for_one_first(wizard: Wizard) -> None:
    page = page_of(wizard)
    assert not page._part.isVisible()
    items = dict(page.items)
    agent = items["agent"]
    assert isinstance(agent, AgentItem)
    items["agent"] = msgspec.structs.replace(agent, coordinator="", user_code="")
    page.show_items(items)
    assert page._part.isVisible()
    assert not page._letter.isVisible()
    page._told(EnrolIs(1, "failed", why="No coordinator is named."))
    assert not page._state.isVisible(), "the part below says what to do"
    items["agent"] = msgspec.structs.replace(agent, coordinator="https://typo:1", user_code="")
    page.show_items(items)
    page._told(EnrolIs(1, "failed", why="It is away."))
    assert page._part.isVisible(), "a wrong address can be mended"
    assert "It is away." in page._state.text()


def test_a_machine_that_has_just_joined_has_nothing_left_to_do_here(wizard: Wizard) -> None:
    page = page_of(wizard)
    items = dict(page.items)
    agent = items["agent"]
    assert isinstance(agent, AgentItem)
    # No card of it is measured while its owner sits at it.
    items["agent"] = msgspec.structs.replace(agent, state="starting", user_code="")
    page.show_items(items)
    assert page.is_settled
    assert not page._letter.isVisible()
    assert "Nothing is left to do" in page._state.text()
