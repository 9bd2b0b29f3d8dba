"""Requests on the control socket reach the right part of the agent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent.calibration import Rates
from app.agent.handlers import Handlers
from app.agent.settings import read_settings
from app.agent.state import OwnerSettings
from app.agent.trial import Shown
from app.control.messages import (
    Accepted,
    EnrolPoll,
    Finish,
    Hello,
    Machines,
    MachinesAre,
    Pause,
    Preview,
    Quit,
    Request,
    Resume,
    SelfTest,
    SelfTestIs,
    SettingsAre,
    SettingsGet,
    SettingsSet,
    SigninBegin,
    SigninCode,
    Stop,
)
from app.policy.intent import Intent
from app.policy.rules import RULES
from app.policy.snapshot import (
    CardFacts,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Snapshot,
)
from gpugoblin.errors import AgentError, GoblinError
from gpugoblin.wire.messages.account import AccountMachine, MachinesReply
from gpugoblin.wire.signing import fingerprint, public_key_bytes

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
SNAPSHOT = Snapshot(
    1000.0, (CardFacts(0, "cpu", "cpu"),), 1000.0, idle=IdleFacts(999.0, "test", is_active=True),
    play=PlayFacts(), power=PowerFacts(), network=NetworkFacts("no", "wired"),
    load=LoadFacts(4.0, 2**34, 2**37),
)  # fmt: skip


class FakeAgent:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.settings = read_settings(None)
        self.revision = 0
        self.joining = SimpleNamespace(
            begin_signin=self.begin, finish_signin=self.finish, is_enrolled=False,
            user_code="ABCD-2345", code_until_s=9.0, fault="", refuse=self.refuse, ask=self.ask,
        )  # fmt: skip
        self.key = KEY
        self.trial = self.measure
        self.around = SimpleNamespace(snapshot=lambda: SNAPSHOT)
        self.owner = SimpleNamespace(
            rules=RULES, wants=lambda intent, cards: self.calls.append((intent, cards)) is None
        )
        self.state = SimpleNamespace(
            owner_settings=lambda: OwnerSettings(self.revision),
            change_settings=self.change,
        )

    async def ask(self, function: Any) -> MachinesReply:
        self.calls.append(function)
        own = fingerprint(public_key_bytes(KEY))
        return MachinesReply((
            AccountMachine(own, 5.0, 9.0, False, 2, 12.5),
            AccountMachine("0123-4567-89ab-cdef", 4.0, None, True, 0, 0.0),
        ))  # fmt: skip

    def refuse(self, peer: Any) -> None:
        if peer.address == "https://kept:1":
            raise AgentError("coordinator_kept", address="https://c:1")

    async def begin(self, mailbox: str, language: str) -> None:
        self.calls.append((mailbox, language))

    async def finish(self, code: str) -> None:
        self.calls.append(code)

    async def measure(self, card: int) -> Shown:
        return Shown(Rates(float(card), 2.0), "full", is_fresh=True)

    def change(self, settings: Any, revision: int, values: Any) -> Any:
        self.revision = revision + 1
        return settings.changed(values), OwnerSettings(self.revision)

    def change_settings(self, settings: Any) -> None:
        self.settings = settings

    def post(self, *_: Any) -> None:
        self.calls.append("post")

    def ask_to_end(self) -> None:
        self.calls.append("end")


def ask(agent: FakeAgent, request: Request) -> Any:
    handlers: Any = Handlers(agent)  # type: ignore[arg-type]
    return asyncio.run(handlers(request))


@pytest.mark.parametrize(
    ("request_", "intent"),
    [
        (Pause(1, "i", (0,), 5.0), Intent("pause", "i", 5.0)),
        (Finish(1, "i", (0,)), Intent("finish", "i")),
        (Stop(1, "i", (0,)), Intent("stop", "i")),
        (Resume(1, "i", (0,)), Intent("resume", "i")),
    ],
)
def test_verbs_are_intents(request_: Request, intent: Intent) -> None:
    agent = FakeAgent()
    assert ask(agent, request_) == Accepted(1, "i", True)
    assert agent.calls == [(intent, (0,)), "post"]


def test_quit_ends() -> None:
    agent = FakeAgent()
    assert ask(agent, Quit(4)) == Accepted(4, "", True)
    assert agent.calls == ["end"]


def test_settings_are_read_and_changed() -> None:
    agent = FakeAgent()
    before = ask(agent, SettingsGet(1))
    assert isinstance(before, SettingsAre)
    assert before.revision == 0
    after = ask(agent, SettingsSet(2, 0, {"queue.prefetch": 5}))
    assert (after.revision, after.values["queue.prefetch"]) == (1, 5)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("c.example.org", "address_refused"),
        ("http://c.example.org", "address_refused"),
        ("", "coordinator_missing"),
        ("https://kept:1", "coordinator_kept"),
    ],
)
def test_a_coordinator_that_cannot_be_is_never_kept(address: str, code: str) -> None:
    agent = FakeAgent()
    with pytest.raises(GoblinError) as caught:
        ask(agent, SettingsSet(1, 0, {"coordinator.address": address}))
    assert caught.value.code == code
    assert agent.revision == 0
    after = ask(agent, SettingsSet(2, 0, {"coordinator.address": "https://c:1"}))
    assert after.values["coordinator.address"] == "https://c:1"


def test_signing_in_reaches_whoever_joins() -> None:
    agent = FakeAgent()
    assert ask(agent, SigninBegin(1, "ann@example.org", "fr")) == Accepted(1, "", True)
    assert ask(agent, SigninCode(2, "1234 5678")) == Accepted(2, "", True)
    assert agent.calls == [("ann@example.org", "fr"), "1234 5678"]


def test_machines_are_asked_for_once_there_is_an_account() -> None:
    agent = FakeAgent()
    assert ask(agent, Machines(1)) == MachinesAre(1, ())
    assert agent.calls == []
    agent.joining.is_enrolled = True
    mine, other = ask(agent, Machines(2)).machines
    assert (mine.is_this, mine.seen_s, mine.cards, mine.credits) == (True, 9.0, 2, 12.5)
    assert (other.is_this, other.seen_s, other.is_revoked) == (False, None, True)


def test_how_enrolment_stands() -> None:
    agent = FakeAgent()
    waiting = ask(agent, EnrolPoll(1))
    assert (waiting.state, waiting.user_code, waiting.until_s) == ("waiting", "ABCD-2345", 9.0)
    agent.joining.user_code, agent.joining.fault = "", "It is away."
    assert (ask(agent, EnrolPoll(2)).state, ask(agent, EnrolPoll(3)).why) == (
        "failed",
        "It is away.",
    )
    agent.joining.fault = ""
    assert ask(agent, EnrolPoll(4)).state == "asking"
    agent.joining.is_enrolled = True
    assert ask(agent, EnrolPoll(5)).state == "enrolled"


def test_a_preview_says_what_would_hold_and_changes_nothing() -> None:
    agent = FakeAgent()
    (away,) = ask(agent, Preview(1, {"profile": "away"})).cards
    (always,) = ask(agent, Preview(2, {"profile": "always"})).cards
    assert (away.ruling, [one.code for one in away.reasons]) == ("STOP", ["in_use"])
    assert always.ruling == "THROTTLE"
    assert agent.calls == []
    assert agent.settings.values["profile"] == "away"
    with pytest.raises(GoblinError):
        ask(agent, Preview(3, {"profile": "nonsense"}))


def test_a_card_is_measured_on_demand() -> None:
    assert ask(FakeAgent(), SelfTest(3, 1)) == SelfTestIs(3, 1, 1.0, 2.0, "full", True)


def test_a_second_hello_is_no_request() -> None:
    with pytest.raises(AgentError):
        ask(FakeAgent(), Hello(1))
