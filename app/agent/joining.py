"""The way of a new device into the network, as its agent walks it: a code, or its owner's letter.

Owns: what is shown while somebody has to approve the code, and the asking again until it is done;
signing in by letter on the owner's word. Must not: know a program that shows it.

The dialogue that waits for the approval has the coordinator's lane to itself meanwhile; what the
owner asks goes over a lane of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from app.agent import coordinator
from app.agent.backoff import Backoff
from app.agent.enrolment import enrol_device
from app.agent.lane import Lane
from app.agent.link import Link
from app.agent.network import Network
from app.agent.speech import Speech
from app.agent.state import State
from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError, GoblinError
from gpugoblin.ids import AskId
from gpugoblin.wire.messages.enrol import EnrolStartReply

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
        self._started: EnrolStartReply | None = None
        self._ask: AskId | None = None
        self._lane = Lane("owner's questions")
        self._link: Link | None = None

    async def run(self, backoff: Backoff) -> None:
        """Asks for a code until one is approved or the agent ends."""
        loop = asyncio.get_running_loop()

        def show(started: EnrolStartReply) -> None:
            loop.call_soon_threadsafe(self._show_code, started)

        while not self._stopping.is_set():
            call = self._network.coordinator_call(
                lambda link: enrol_device(link, self._state, self._network.key, show, self._sleep)
            )
            try:
                await asyncio.wrap_future(call)
            except GoblinError as error:
                self.fault, self.user_code = error.what[:1000], ""
                self._started = self._ask = None
                self._speech.say("enrol_failed", why=error.what)
                self._changed()
                await asyncio.sleep(backoff.next_s())
                continue
            self.is_enrolled, self.user_code, self.fault = True, "", ""
            self._speech.say("enrolled")
            self._done()
            return

    def end(self) -> None:
        """Wakes what waits: the agent ends."""
        self._hurry.set()

    def close(self) -> None:
        """Ends the lane; what hangs in the network is left to itself."""
        self._lane.end(self._disconnect)

    async def ask(self, function: Callable[[Link], Any]) -> Any:
        """A dialogue with the coordinator that the owner waits for.

        Raises:
            AgentError, WireError: as `Link.call`.
        """

        def work() -> Any:
            if self._link is None:
                self._link = Link(
                    self._network.coordinator_peer, self._network.key, self._network.clock
                )
            return function(self._link)

        return await asyncio.wrap_future(self._lane.call(work))

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

    def _sleep(self, duration_s: float) -> None:
        """Between two polls; shorter when it is known that the next one brings good news."""
        if self._hurry.wait(duration_s):
            self._hurry.clear()
        if self._stopping.is_set():
            raise AgentError("enrolment_expired", user_code=self.user_code)

    def _show_code(self, started: EnrolStartReply) -> None:
        self.user_code, self.fault, self._started = started.user_code, "", started
        self.code_until_s = self._clock.wall_s() + started.expires_s
        self._speech.say(
            "enrol_code",
            user_code=started.user_code,
            fingerprint=started.fingerprint,
            minutes=round(started.expires_s / 60),
        )
        self._changed()
