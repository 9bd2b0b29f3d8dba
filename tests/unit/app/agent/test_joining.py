"""Joining the network: by an approved code, and by the owner's letter; what keeps one from it."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.agent.backoff import Backoff
from app.agent.joining import Joining
from app.agent.lane import Lane
from app.agent.link import Peer
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

    def __init__(self) -> None:
        self.key = make_key()
        self.is_approved = threading.Event()
        self.is_away = False
        self.known: Any = None
        self.said: list[str] = []
        self.kept: list[Any] = []
        self.done: list[bool] = []
        self.lane = Lane("coordinator")
        self.link = SimpleNamespace(call=self.call, close=lambda: None, peer=peer("https://c:1"))
        self.network = SimpleNamespace(
            key=self.key,
            coordinator_peer=self.link.peer,
            coordinator_call=lambda work: self.lane.call(lambda: work(self.linked(None))),
            linked=self.linked,
        )
        self.stopping = threading.Event()
        self.joining = Joining(
            self.network,  # type: ignore[arg-type]
            SimpleNamespace(keep_enrolment=self.kept.append, enrolment=lambda *_: self.known),  # type: ignore[arg-type]
            SimpleNamespace(say=lambda code, **_: self.said.append(code)),  # type: ignore[arg-type]
            SystemClock(),
            self.stopping,
            is_enrolled=False,
            done=lambda: self.done.append(True),
            changed=lambda: None,
        )

    def linked(self, _link: Any) -> Any:
        if self.network.coordinator_peer is None:
            raise AgentError("coordinator_missing")
        return self.link

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

    def run(self, script: Any, most_s: float = 0.2) -> None:
        async def whole() -> None:
            backoff = Backoff(random.Random(1), first_s=most_s, most_s=most_s, least_s=most_s / 2)
            walk = asyncio.ensure_future(self.joining.run(backoff))
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
def place() -> Place:
    return Place()


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


def peer(address: str) -> Peer:
    return Peer("coordinator", address)


def test_with_no_coordinator_named_it_asks_nobody_until_one_is(place: Place) -> None:
    place.network.coordinator_peer = None

    async def script(walk: Any) -> None:
        joining = place.joining
        await until(lambda: joining.fault)
        assert await joining.look(lambda link: link is None)
        with pytest.raises(AgentError) as caught:
            await joining.ask(lambda link: link)
        assert caught.value.code == "coordinator_missing"
        place.is_approved.set()
        joining.move(peer("https://c:1"))
        assert joining.fault == ""
        await until(lambda: joining.user_code)
        joining.end()  # no minute of waiting
        await asyncio.wait_for(walk, 20.0)
        assert joining.is_enrolled

    place.run(script)
    assert place.said == ["no_coordinator", "enrol_code", "enrolled"]


def test_another_coordinator_is_asked_at_once_and_the_first_ones_code_forgotten(
    place: Place,
) -> None:
    async def script(walk: Any) -> None:
        joining = place.joining
        await until(lambda: joining.user_code)
        joining.move(place.network.coordinator_peer)  # the same: nothing
        assert joining.user_code
        joining.move(peer("https://d:1"))
        assert joining.user_code == ""
        await until(lambda: joining.user_code)
        place.known = object()
        joining.move(peer("https://e:1"))  # which knows this device of old
        await asyncio.wait_for(walk, 20.0)
        with pytest.raises(AgentError) as caught:
            joining.move(peer("https://f:1"))
        assert caught.value.code == "coordinator_kept"
        assert place.network.coordinator_peer.address == "https://e:1"
        joining.move(Peer("coordinator", "https://e:1", "ab" * 32))  # a new certificate of its own

    place.run(script)
    assert place.said == ["enrol_code", "enrol_code", "enrolled"]


def test_a_wrong_address_is_not_waited_for_when_another_is_named(place: Place) -> None:
    place.is_away = True

    async def script(walk: Any) -> None:
        await until(lambda: place.joining.fault)
        place.is_away = False
        place.is_approved.set()
        place.joining.move(peer("https://d:1"))
        await until(lambda: place.joining.user_code)
        place.joining.end()
        await asyncio.wait_for(walk, 20.0)

    place.run(script, most_s=3600.0)
