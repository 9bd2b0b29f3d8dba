"""The way of a new device into the network, as its agent walks it: a code, or its owner's letter.

Owns: what is shown while somebody has to approve the code, and the asking again until it is done;
signing in by letter on the owner's word. Must not: know a program that shows it.

The dialogue that waits for the approval has the coordinator's lane to itself meanwhile; what the
owner asks goes over a lane of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from app.agent import coordinator
from app.agent.backoff import Backoff
from app.agent.enrolment import enrol_device
from app.agent.lane import Lane
from app.agent.link import Link, Peer
from app.agent.network import Network
from app.agent.speech import Speech
from app.agent.state import State
from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError, GoblinError
from gpugoblin.ids import AskId
from gpugoblin.wire.messages.enrol import EnrolStartReply
from gpugoblin.wire.signing import public_key_bytes

__all__ = ["Joining"]


class Joining:
    """Whether this device is enrolled, and how it comes to be.

    Args:
        stopping: set when the agent ends.
        done: the device is enrolled from now on.
        changed: there is something new to show.
    """

    def __init__(
        self,
        network: Network,
        state: State,
        speech: Speech,
        clock: Clock,
        stopping: threading.Event,
        *,
        is_enrolled: bool,
        done: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.is_enrolled = is_enrolled
        self.user_code = ""
        self.fault = ""
        self.code_until_s: float | None = None
        self._network = network
        self._state = state
        self._speech = speech
        self._clock = clock
        self._stopping = stopping
        self._done = done
        self._changed = changed
        self._hurry = threading.Event()
        self._moved = asyncio.Event()
        self._started: EnrolStartReply | None = None
        self._ask: AskId | None = None
        self._lane = Lane("owner's questions")
        self._link: Link | None = None

    async def run(self, backoff: Backoff) -> None:
        """Asks for a code until one is approved or the agent ends.

        As long as no coordinator is named it waits for one, and asks nobody.
        """
        loop = asyncio.get_running_loop()

        def show(started: EnrolStartReply) -> None:
            loop.call_soon_threadsafe(self._show_code, started)

        while not self._stopping.is_set():
            self._moved.clear()
            self._hurry.clear()
            peer = self._network.coordinator_peer
            if peer is None:
                self._speech.say("no_coordinator")
                self._failed(AgentError("coordinator_missing"))
                await self._moved.wait()
                continue

            def walk(link: Link, peer: Peer = peer) -> None:
                def sleep(duration_s: float) -> None:
                    self._sleep(duration_s, peer)

                enrol_device(link, self._state, self._network.key, show, sleep)

            try:
                if self._state.enrolment(peer.address, public_key_bytes(self._network.key)) is None:
                    await asyncio.wrap_future(self._network.coordinator_call(walk))
            except GoblinError as error:
                if self._moved.is_set():  # what the last one said is of no interest any more
                    continue
                self._speech.say("enrol_failed", why=error.what)
                self._failed(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(backoff.next_s()):
                        await self._moved.wait()
                continue
            if self._moved.is_set():
                continue
            self.is_enrolled, self.user_code, self.fault = True, "", ""
            self._speech.say("enrolled")
            self._done()
            return

    def move(self, peer: Peer | None) -> None:
        """Joins at this coordinator instead. In the loop's thread.

        Raises:
            AgentError: `coordinator_kept`: this device is enrolled.
        """
        self.refuse(peer)
        if peer is None or self._network.coordinator_peer == peer:
            return
        self._network.coordinator_peer = peer
        self._started = self._ask = None
        self.fault = self.user_code = ""
        self._moved.set()
        self._hurry.set()
        self._changed()

    def refuse(self, peer: Peer | None) -> None:
        """Raises AgentError `coordinator_kept` where `move` would."""
        old = self._network.coordinator_peer
        if not self.is_enrolled or old is None or peer is None:
            return
        if old.address != peer.address:
            raise AgentError("coordinator_kept", address=old.address)

    def _failed(self, error: GoblinError) -> None:
        self.fault, self.user_code = error.what[:1000], ""
        self._started = self._ask = None
        self._changed()

    def end(self) -> None:
        """Wakes what waits: the agent ends."""
        self._hurry.set()

    def close(self) -> None:
        """Ends the lane; what hangs in the network is left to itself."""
        self._lane.end(self._disconnect)

    async def ask(self, function: Callable[[Link], Any]) -> Any:
        """A dialogue with the coordinator that the owner waits for.

        Raises:
            AgentError, WireError: as `Link.call`; `coordinator_missing`.
        """

        def work() -> Any:
            self._link = self._network.linked(self._link)
            return function(self._link)

        return await asyncio.wrap_future(self._lane.call(work))

    async def look(self, function: Callable[[Link | None], Any]) -> Any:
        """As `ask`; None takes the link's place where no coordinator is named."""
        if self._network.coordinator_peer is not None:
            return await self.ask(function)
        return await asyncio.wrap_future(self._lane.call(lambda: function(None)))

    async def begin_signin(self, mailbox: str, language: str) -> None:
        """Has a letter with a code sent.

        Raises:
            AgentError: `signin_not_now`; as `coordinator.enrol_mail`.
        """
        started = self._started
        if self.is_enrolled or started is None:
            raise AgentError("signin_not_now")
        reply = await self.ask(
            lambda link: coordinator.enrol_mail(link, started.enrolment, mailbox, language)
        )
        self._ask = reply.ask

    async def finish_signin(self, code: str) -> None:
        """Brings the code of the letter; the device is enrolled soon after.

        Raises:
            AgentError: `signin_not_now`; as `coordinator.enrol_code`.
        """
        started, ask = self._started, self._ask
        if self.is_enrolled or started is None or ask is None:
            raise AgentError("signin_not_now")
        await self.ask(lambda link: coordinator.enrol_code(link, started.enrolment, ask, code))
        self._ask = None
        self._hurry.set()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close()

    def _sleep(self, duration_s: float, peer: Peer) -> None:
        """Between two polls; shorter when it is known that the next one brings good news."""
        if self._hurry.wait(duration_s):
            self._hurry.clear()
        if self._stopping.is_set() or self._network.coordinator_peer is not peer:
            raise AgentError("enrolment_expired", user_code=self.user_code)

    def _show_code(self, started: EnrolStartReply) -> None:
        if self._moved.is_set():
            return
        self.user_code, self.fault, self._started = started.user_code, "", started
        self.code_until_s = self._clock.wall_s() + started.expires_s
        self._speech.say(
            "enrol_code",
            user_code=started.user_code,
            fingerprint=started.fingerprint,
            minutes=round(started.expires_s / 60),
        )
        self._changed()
