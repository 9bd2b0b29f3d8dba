"""Joining the network: by an approved code, and by the owner's letter; what keeps one from it."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.agent.backoff import Backoff
from app.agent.joining import Joining
from app.agent.lane import Lane
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError
from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.enrol import (
    EnrolCodeReply,
    EnrolMailReply,
    EnrolPollReply,
    EnrolStartReply,
)
from gpugoblin.wire.signing import fingerprint, public_key_bytes


class Place:
    """A coordinator that approves once the letter's code came, and the agent around it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.key = make_key()
        self.is_approved = threading.Event()
        self.is_away = False
        self.said: list[str] = []
        self.kept: list[Any] = []
        self.done: list[bool] = []
        self.lane = Lane("coordinator")
        self.peer = SimpleNamespace(address="https://c:1")
        link = SimpleNamespace(call=self.call, close=lambda: None, peer=self.peer)
        monkeypatch.setattr("app.agent.joining.Link", lambda *_: link)
        self.network = SimpleNamespace(
            key=self.key,
            clock=SystemClock(),
            coordinator_peer=self.peer,
            coordinator_call=lambda work: self.lane.call(lambda: work(link)),
        )
        self.stopping = threading.Event()
        self.joining = Joining(
            self.network,  # type: ignore[arg-type]
            SimpleNamespace(keep_enrolment=self.kept.append),  # type: ignore[arg-type]
            SimpleNamespace(say=lambda code, **_: self.said.append(code)),  # type: ignore[arg-type]
            SystemClock(),
            self.stopping,
            is_enrolled=False,
            done=lambda: self.done.append(True),
            changed=lambda: None,
        )

    def call(self, _method: str, path: str, _body: bytes = b"", **_: Any) -> bytes:
        if self.is_away:
            raise AgentError("peer_away", peer="coordinator", address="c", reason="test")
        replies: dict[str, msgspec.Struct] = {
            "/v1/enrol/start": EnrolStartReply(
                "enrol_a",
                "ABCD-2345",
                fingerprint(public_key_bytes(self.key)),
                60.0,
                600.0,  # type: ignore[arg-type]
            ),
            "/v1/enrol/mail": EnrolMailReply("ask_a", 600.0),  # type: ignore[arg-type]
            "/v1/enrol/code": EnrolCodeReply("device_a"),  # type: ignore[arg-type]
            "/v1/enrol/poll": EnrolPollReply("approved", "device_a")  # type: ignore[arg-type]
            if self.is_approved.is_set()
            else EnrolPollReply("pending"),
        }
        if path == "/v1/enrol/code":
            self.is_approved.set()
        return encode(replies[path])

    def run(self, script: Any) -> None:
        async def whole() -> None:
            walk = asyncio.ensure_future(self.joining.run(Backoff(random.Random(1), most_s=0.2)))
            try:
                await script(walk)
            finally:
                self.stopping.set()
                self.joining.end()
                walk.cancel()
                await asyncio.wait([walk])
                self.joining.close()
                self.lane.end()
                self.lane.join(5.0)

        asyncio.run(whole())


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    return Place(monkeypatch)


async def until(holds: Any) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_the_letters_code_enrols_at_once_though_polls_are_a_minute_apart(place: Place) -> None:
    async def script(walk: Any) -> None:
        joining = place.joining
        await until(lambda: joining.user_code)
        await joining.begin_signin("ann@example.org", "en")
        await joining.finish_signin("1234 5678")
        await asyncio.wait_for(walk, 20.0)
        assert joining.is_enrolled
        assert place.done == [True]
        assert place.kept[0].device == "device_a"
        with pytest.raises(AgentError):
            await joining.begin_signin("ann@example.org", "en")

    place.run(script)
    assert place.said == ["enrol_code", "enrolled"]


def test_a_code_before_a_letter_is_refused(place: Place) -> None:
    async def script(_walk: Any) -> None:
        await until(lambda: place.joining.user_code)
        with pytest.raises(AgentError) as caught:
            await place.joining.finish_signin("1234 5678")
        assert caught.value.code == "signin_not_now"

    place.run(script)


def test_without_a_coordinator_it_says_so_and_goes_on_asking(place: Place) -> None:
    place.is_away = True

    async def script(walk: Any) -> None:
        await until(lambda: place.joining.fault)
        with pytest.raises(AgentError) as caught:
            await place.joining.begin_signin("ann@example.org", "en")
        assert caught.value.code == "signin_not_now"
        place.is_away = False
        place.is_approved.set()
        await until(lambda: place.joining.user_code or walk.done())
        place.joining.end()
        await asyncio.wait_for(walk, 20.0)
        assert place.joining.fault == ""

    place.run(script)
