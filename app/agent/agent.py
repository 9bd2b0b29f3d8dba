"""The agent: the loop around the machine. Instructions go out to the parts, events come back in.

Owns: the order of start and end, the loop, the clock and the one line for people per change. Must
not: decide anything that the machine or the policy decides; touch an array; load Qt or NumPy.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from app.agent import instructions as told
from app.agent import live_settings
from app.agent.backoff import Backoff
from app.agent.cache import BlobCache
from app.agent.card_engine import Computed
from app.agent.card_start import CardLook, no_cards, start_warm_engine
from app.agent.display import shown_items
from app.agent.enrolment import chosen_peer, is_enrolled
from app.agent.events import (
    AskedToEnd,
    CardFound,
    Enrolled,
    Event,
    Recalled,
    Tick,
)
from app.agent.fleet import Card, EngineMaker, Fleet, start_engine
from app.agent.handlers import Handlers
from app.agent.instructions import Instruction
from app.agent.joining import Joining
from app.agent.journal import Journal
from app.agent.late_cards import LateCards
from app.agent.machine import Machine
from app.agent.network import Cards, Network
from app.agent.owner import Owner
from app.agent.plan import next_moment_s
from app.agent.settings import Settings, control_group
from app.agent.settings_file import SettingsFile
from app.agent.speech import Speech
from app.agent.state import State, shared_directory
from app.agent.surroundings import Adjust, Surroundings
from app.agent.trial import Trial
from app.agent.updates import Updates
from app.control.server import ControlServer
from app.policy.snapshot import Snapshot
from gpugoblin import __version__
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import GoblinError
from gpugoblin.ids import LeaseId

__all__ = ["Agent"]

END_LIMIT_S: Final = 1.5
"""How long the end may take: leases told, engines gone. What is not told, the journal keeps."""

SHOW_PERIOD_S: Final = 0.05
LONGEST_SLEEP_S: Final = 3600.0
EXIT_FAILED: Final = 70


class Agent:
    """One agent of one state directory. `run` is called once, in a loop of its own.

    Args:
        say: takes lines for people.
        make_engine: starts an engine; blocks. Another one is for tests.
        look: finds the graphics cards; blocks. None are looked for without it.
        adjust: changes what the probes are given; for tests.
        file: where the settings are from: read again when it changes, and after SIGHUP.

    Raises:
        AgentError, WireError: what keeps it from starting; nothing is held then.
    """

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None],
        *,
        make_engine: EngineMaker = start_engine,
        look: CardLook = no_cards,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        adjust: Adjust = lambda machine: machine,
        file: SettingsFile | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self._rng = rng or random.SystemRandom()
        self.state = State(settings.state_directory)
        try:
            self.settings = settings.with_owners(self.state.owner_settings().values)
            self.key = self.state.device_key()
            peer = chosen_peer(self.settings)
            intents = self.state.intents()
            self.cache = BlobCache(
                self.state.cache_directory,
                self.settings.number("cache.limit_bytes"),
                self.settings.number("cache.least_free_bytes"),
            )
            self._journal = Journal(self.state.journal_path)
        except BaseException:
            self.state.close()
            raise
        self.speech = Speech(say, self.clock)
        self._inbox: deque[Event] = deque()
        self._is_due = False
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None
        self._showing: asyncio.TimerHandle | None = None
        self.since_s = self.clock.wall_s()
        self.stopping = threading.Event()
        self._ended: asyncio.Future[int] | None = None
        self.machine = Machine(live_settings.limits_of(self.settings))
        self.fleet = Fleet(
            self.settings, self.state.directory, make_engine, self.post, self._keep,
            self._lose, warm_card=start_warm_engine,
        )  # fmt: skip
        self.late = LateCards(look, self.fleet, self.speech, self._joined, self._is_absent)
        numbers = tuple(self.fleet.cards)
        self.owner = Owner(self.state, numbers, intents, self.settings.choices())
        self.network = Network(
            self.key,
            peer,
            self.clock,
            self._rng,
            self.cache,
            Cards(self.fleet.classes, self.fleet.capabilities),
            self.post,
            self.speech.explain,
            lambda error: self.speech.say("grant_refused", why=error.what),
        )
        try:
            self.around = Surroundings(
                lambda: self.settings,
                self.state,
                self.fleet,
                self.network,
                self.clock,
                self.post,
                lambda error: self.speech.say("history_unwritten", why=error.what),
                self.late.poke,
                self._uncapped,
                adjust,
            )
        except BaseException:
            self._journal.close()
            self.state.close()
            raise
        self.joining = Joining(
            self.network,
            self.state,
            self.speech,
            self.clock,
            self.stopping,
            is_enrolled=is_enrolled(self.settings, self.state, self.key),
            done=lambda: self.post(Enrolled()),
            changed=self._show_soon,
        )
        self.trial = Trial(self.fleet, lambda card: self.owner.policy.current.get(card))
        self._updates = Updates(
            lambda: self.settings.flag("updates.look"),
            self.state.directory / "updates",
            self._announce,
            self.clock,
            self._rng,
        )
        self._file = file
        self.settings_fault = ""
        self._do = self._table()

    # -- life --------------------------------------------------------------------------------

    async def run(self) -> int:
        """Lends until it is asked to end; the exit status."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.set_exception_handler(self._broke)
        group = control_group(self.settings)
        directory = shared_directory(self.settings.control_directory, group is not None)
        control = ControlServer(
            directory, f"agent-{__version__}", Handlers(self), group, self.around.hear_session
        )
        self._control = control
        tasks: list[asyncio.Task[None]] = []
        try:
            control.show(shown_items(self))
            await control.start()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.ask_to_end)
            loop.add_signal_handler(signal.SIGHUP, self._read_settings)
            await self.around.start()
            self._begin()
            if not self.joining.is_enrolled:
                tasks.append(loop.create_task(self.joining.run(Backoff(self._rng))))
            tasks.append(loop.create_task(self._updates.follow()))
            tasks.append(loop.create_task(self.late.follow()))
            return await self._ended
        finally:
            self.stopping.set()
            self.joining.end()
            self.trial.call_off()
            for task in tasks:
                task.cancel()
                await asyncio.wait([task])
            await self._close(control)

    def _begin(self) -> None:
        self._has_begun = True
        self.speech.say(
            "agent_started",
            state=str(self.state.directory),
            control=str(self.settings.control_directory),
        )
        if self.cache.discarded_bytes:
            self.speech.say("cache_discarded", bytes=self.cache.discarded_bytes)
        found = [CardFound(card=each.number, kind=each.kind) for each in self.fleet.cards.values()]
        self.post(*found, self._recalled())
        if self.joining.is_enrolled:
            self.post(Enrolled())

    def _joined(self, cards: tuple[Card, ...]) -> None:
        """Cards have come: from now on they are ruled, counted and shown like the others."""
        self.owner.cards = tuple(self.fleet.cards)
        self.around.joined(cards)
        self.post(*[CardFound(card=each.number, kind=each.kind) for each in cards])

    def _uncapped(self, identity: str, why: str) -> None:
        for card in self.fleet.cards.values():  # none, where its number went to another meanwhile
            if card.identity == identity:
                self.speech.say("power_uncapped", card=card.number, why=why)

    def _is_absent(self, number: int) -> bool:
        state = self.machine.model.cards.get(number)
        return state is None or state.engine == "absent"

    def _recalled(self) -> Recalled:
        recall = self._journal.recall(self.clock.wall_s())
        news = [found for _, offer in recall.grants if (found := self.network.recall(offer))]
        if recall.leases:
            self.speech.say("leases_recalled", count=len(recall.leases))
        return Recalled(grants=tuple(news), leases=recall.leases)

    async def _close(self, control: ControlServer) -> None:
        for timer in (self._timer, self._showing):
            if timer is not None:
                timer.cancel()
        self.joining.close()
        self.network.close()
        await self.around.close()
        for card in self.fleet.cards.values():
            await card.engine.close()
        self.fleet.close()
        await control.close()
        self.cache.close()
        left = self._journal.held()
        self._journal.close()
        self.state.close()
        self.speech.sum_up(is_last=True)
        self.speech.say("agent_ended", left=left)

    def ask_to_end(self) -> None:
        """Gives everything back and ends, within two seconds."""
        if not self.stopping.is_set():
            self.stopping.set()
            self.joining.end()
            self.speech.say("agent_ends")
            self.post(AskedToEnd())
            asyncio.get_running_loop().call_later(END_LIMIT_S, self._finish, 0)

    def _finish(self, status: int) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(status)

    def _broke(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A defect of this program: stop lending rather than go on in an unknown state."""
        loop.default_exception_handler(context)
        self._finish(EXIT_FAILED)

    def _failed(self, error: GoblinError) -> None:
        self.speech.say("failed", why=error.what, fix=error.next_step)
        self._finish(EXIT_FAILED)

    def _announce(self, code: str, fields: dict[str, object]) -> None:
        self.speech.say(code, **fields)
        self._show_soon()

    # -- the loop ----------------------------------------------------------------------------

    def post(self, *events: Event) -> None:
        """Takes events for the next step; several at once stay together."""
        self._inbox.extend(events)
        if not self._has_begun or self._ended is None or self._ended.done():
            return
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._is_due = False
        self.speech.sum_up()
        events: list[Event] = list(self._inbox) or [Tick()]
        self._inbox.clear()
        try:
            snapshot = self.around.snapshot()
            rulings = self.owner.rule(snapshot)
            for ruling in rulings:
                self.speech.say_ruling(ruling)
            self.trial.follow()
            # A card must be known before its ruling is told.
            known = [each for each in events if isinstance(each, CardFound)]
            rest = [each for each in events if not isinstance(each, CardFound)]
            told_events = [
                *known,
                *self.owner.events(rulings),
                *(live_settings.accepted(self, each) for each in rest),
            ]
            self._perform(self.machine.handle(self.clock.monotonic_s(), *told_events))
            self.around.after(self.machine.model, self.owner.policy.current, snapshot)
        except GoblinError as error:
            self._failed(error)
            return
        self._show_soon()
        self._set_timer(snapshot)
        if self._file is not None and self._file.has_changed(self.clock.monotonic_s()):
            self._read_settings()

    def _set_timer(self, snapshot: Snapshot) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = next_moment_s(self.machine.model) - self.clock.monotonic_s()
        for moment_s in (self.owner.next_change_s(snapshot), self.around.next_s()):
            if moment_s is not None:
                wait_s = min(wait_s, moment_s - self.clock.wall_s())
        sum_up_s = self.speech.next_s()
        if sum_up_s is not None:
            wait_s = min(wait_s, sum_up_s - self.clock.monotonic_s())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(max(wait_s, 0.01), LONGEST_SLEEP_S), self.post)

    def _perform(self, instructions: list[Instruction]) -> None:
        journal: dict[type[Instruction], Callable[[Any], None]] = {
            told.OpenGrant: self._note_grant,
            told.DropGrant: lambda each: self._journal.close_grant(each.grant),
            told.RememberLease: lambda each: self._journal.remember(each.lease, each.grant),
            told.ForgetLease: lambda each: self._journal.forget(each.lease),
        }
        entries = [each for each in instructions if type(each) in journal]
        if entries:
            with self._journal.together():
                for each in entries:
                    journal[type(each)](each)
        for each in instructions:
            self._do[type(each)](each)

    def _note_grant(self, each: told.OpenGrant) -> None:
        model = self.machine.model
        until_s = model.grants[each.grant].until_s + self.clock.wall_s() - model.now_s
        self._journal.open_grant(each.grant, self.network.offers[each.grant], until_s)

    def _table(self) -> dict[type[Instruction], Callable[[Any], None]]:
        cards = self.fleet.cards
        return {
            told.OpenGrant: lambda each: self.network.open_grant(each.grant),
            told.DropGrant: lambda each: self.network.close_grant(each.grant),
            told.RememberLease: lambda each: None,
            told.ForgetLease: lambda each: None,
            told.DropLease: lambda each: self.network.drop_lease(each.lease),
            told.Contact: self.network.contact,
            told.Exchange: self.network.exchange,
            told.Fetch: self.network.fetch,
            told.Upload: self.network.upload,
            told.StartEngine: lambda each: cards[each.card].engine.begin(),
            told.StopEngine: lambda each: cards[each.card].engine.stop(),
            told.FreezeEngine: lambda each: cards[each.card].engine.freeze(),
            told.ThawEngine: lambda each: cards[each.card].engine.thaw(),
            told.ThrottleEngine: lambda each: cards[each.card].engine.throttle(each.duty_percent),
            told.SubmitTask: self._submit,
            told.CancelTask: lambda each: cards[each.card].engine.cancel(each.lease),
            told.Drained: self._drained,
            told.Say: self._say,
            told.End: lambda each: self._finish(0),
        }

    def _submit(self, each: told.SubmitTask) -> None:
        held = self.network.held[each.lease]
        self.fleet.cards[each.card].engine.submit(
            each.lease, held.task, self.network.reader(each.lease)
        )

    def _keep(self, lease: LeaseId, computed: Computed) -> None:
        held = self.network.held.get(lease)
        if held is not None:
            self.network.results[lease] = computed
            card = self.network.offers[held.grant].card
            self.fleet.cards[card].done += 1
            self.around.books.task(card, computed.compute_s)
            self.network.totals.computed_s += computed.compute_s

    def _lose(self, seconds: float) -> None:
        self.network.totals.lost_s += seconds

    def _drained(self, each: told.Drained) -> None:
        self.owner.drained(each.card)
        self.post()

    def _say(self, each: told.Say) -> None:
        fields = dict(each.fields)
        card = self.fleet.cards.get(int(fields["card"])) if "card" in fields else None
        if card is not None:
            refusal = card.engine.refusal
            fields["level"] = card.engine.level
            fields["fix"] = "" if refusal is None else refusal.next_step
            if refusal is not None and refusal.code == fields.get("code"):
                fields["why"] = refusal.what
        self.speech.say(each.code, **fields)

    # -- what is shown -----------------------------------------------------------------------

    def _show_soon(self) -> None:
        if self._showing is None:
            self._showing = asyncio.get_running_loop().call_later(SHOW_PERIOD_S, self._show)

    def _show(self) -> None:
        self._showing = None
        self._control.show(shown_items(self))

    def _read_settings(self) -> None:
        """After a change or SIGHUP."""
        if self._file is not None:
            live_settings.follow(self, self._file)
            self._show_soon()

    def change_settings(self, settings: Settings) -> None:
        """Takes changed settings into use."""
        live_settings.take(self, settings)
