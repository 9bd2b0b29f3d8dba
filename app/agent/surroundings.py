"""What is around an agent: the probes, the facts they tell, and the books that are kept.

Owns: the start and end of the probes, their pace, the way to sleep, and the history's entries. Must
not: decide anything; know a lease.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from app.agent.bookkeeper import Bookkeeper, Now, Works
from app.agent.energy import EnergyMeter
from app.agent.fleet import Card, Fleet, threads_of
from app.agent.history import History
from app.agent.model import Model
from app.agent.network import Network
from app.agent.power_limits import PowerLimits
from app.agent.power_records import PowerRecords
from app.agent.settings import Settings
from app.agent.state import State
from app.control.messages import SessionReport
from app.policy.combine import CardRuling
from app.policy.rule import Ruling
from app.policy.rules.power import cap_of
from app.policy.snapshot import CardFacts, Snapshot
from app.probes.board import FactBoard
from app.probes.gather import Machine, Probes
from app.probes.gpus.nvml import load_nvml
from app.probes.idle.sessions import SessionTold
from app.probes.idle.source import Input
from app.probes.polls import Pace
from app.probes.zone import LocalZone
from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError

__all__ = ["FIRST_LOOK_S", "Adjust", "Surroundings", "pace_of"]

FIRST_LOOK_S: Final = 3.0
"""How long the first facts are awaited before the rules speak: no longer than a probe may take."""

SUM_PERIOD_S: Final = 30.0
NVIDIAS: Final = "GPU-"
"""How identities begin by which NVIDIA's library knows a card."""

Adjust = Callable[[Machine], Machine]
"""Changes what the probes are given: for tests."""

_OWNERS: Final = frozenset({"owner_paused", "owner_finished", "owner_stopped"})


def pace_of(rulings: Mapping[int, CardRuling]) -> Pace:
    """How closely to look: nobody has to when the owner wants no card lent."""
    if any(ruling.ruling < Ruling.STOP for ruling in rulings.values()):
        return "lending"
    words = [{reason.code for reason in ruling.reasons} for ruling in rulings.values()]
    return "off" if words and all(codes & _OWNERS for codes in words) else "waiting"


class Surroundings:
    """Belongs to one agent; methods are for the loop's thread.

    Args:
        settings: the settings that hold, asked each time.
        post: asks for a step of the agent.
        failed: told when the history cannot be written.
        plugged: told that cards may have come or gone.
        uncapped: told of a card by its identity whose power limit cannot be set, and why.

    Raises:
        AgentError: `state_damaged`: the history is none.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        state: State,
        fleet: Fleet,
        network: Network,
        clock: Clock,
        post: Callable[[], None],
        failed: Callable[[AgentError], None],
        plugged: Callable[[], None] = lambda: None,
        uncapped: Callable[[str, str], None] = lambda identity, why: None,
        adjust: Adjust = lambda machine: machine,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._network = network
        self._clock = clock
        self.board = FactBoard(post, LocalZone())
        self._meters: dict[int, EnergyMeter] = {}
        self._meter(fleet.cards.values())
        self.books = Bookkeeper(History(state.directory / "history.db"), self._meters, failed)
        machine = Machine(
            now_s=clock.wall_s,
            disk=state.directory,
            ours=lambda: (os.getpid(), *fleet.pids()),
            held=fleet.held,
            listed=lambda: settings().choices().texts("games.programs"),
            traffic=lambda: self.books.traffic(self.now()),
            plugged=plugged,
        )
        self._limits = PowerLimits(PowerRecords(), load_nvml, uncapped, clock.monotonic_s)
        self._today = (0, 0.0)
        self._summed_s = 0.0
        self.probes = Probes(self.board, adjust(machine))

    async def start(self) -> None:
        """Starts the probes; returns when each has told its fact, or after a while."""
        self.probes.start()
        self._limits.begin()
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                while not self.board.is_whole:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return  # what is missing is unknown, and says so

    async def close(self) -> None:
        """Ends the probes and writes what is open."""
        self._limits.close()
        await self.probes.close()
        self.books.close(self.now())

    def _meter(self, cards: Iterable[Card]) -> None:
        threads = threads_of(self._settings())
        for card in cards:
            meter = EnergyMeter(card.kind == "cpu", threads, os.cpu_count() or 1)
            self._meters[card.number] = meter

    def joined(self, cards: Iterable[Card]) -> None:
        """Cards that have come: their energy is counted, and the probes look at them now."""
        self._meter(cards)
        self.probes.look_again()

    def hear_session(self, connection: int, user: int, told: SessionReport | None) -> None:
        """The word of a helper in a desktop session of a user; None: it has gone."""
        if told is None:
            self.probes.put_session(connection, None)
            return
        last_s = min(told.last_input_s, self._clock.wall_s())  # nothing is later than now
        seen = Input(last_s, told.is_active, told.awake_for) if told.is_known else None
        self.probes.put_session(
            connection,
            SessionTold(user, seen, told.why, told.games, told.full_screen, told.play_why),
        )

    def now(self) -> Now:
        """The moment, for the books."""
        settings, totals = self._settings(), self._network.totals
        return Now(
            self._clock.wall_s(),
            self.board.zone(),
            totals.bytes_received,
            totals.bytes_sent,
            settings.fraction("price.per_kwh"),
            settings.text("price.currency"),
        )

    def snapshot(self) -> Snapshot:
        """The facts of now, for the policy."""
        cards = [
            CardFacts(each.number, each.kind, each.identity) for each in self._fleet.cards.values()
        ]
        return self.board.snapshot(self._clock.wall_s(), self._clock.monotonic_s(), cards)

    def after(self, model: Model, rulings: Mapping[int, CardRuling], snapshot: Snapshot) -> None:
        """After a step of the agent: pace, sleep, books."""
        self.probes.set_pace(pace_of(rulings))
        engines = [card.engine for card in model.cards.values()]
        if self.board.is_asleep and all(engine == "absent" for engine in engines):
            self.probes.let_sleep()
        choices = self._settings().choices()
        held = self._fleet.held()  # before its lock is ours another agent lends it, or did
        self._limits.want({
            facts.identity: cap_w
            for facts in snapshot.cards
            if facts.identity.startswith(NVIDIAS)
            and facts.identity in held
            and facts.card in model.cards
            and model.cards[facts.card].engine != "absent"
            and (cap_w := cap_of(choices.of(facts), facts))
        })  # fmt: skip
        energies = self.probes.cards.energy_mj if self.probes.cards is not None else {}
        works = {
            facts.card: Works(
                (model.cards[facts.card].lab or "")
                if model.cards[facts.card].engine == "ready" else "",
                max((each.temperature_c for each in facts.sensors or ()), default=None),
                facts.power_w,
                energies.get(facts.identity),
            )
            for facts in snapshot.cards if facts.card in model.cards
        }  # fmt: skip
        if works:
            self.books.look(works, self.now())
        if abs(self._clock.wall_s() - self._summed_s) >= SUM_PERIOD_S:
            self._sum_up()

    def today(self) -> tuple[int, float]:
        """Bytes and watt-hours of today."""
        return self._today

    def _sum_up(self) -> None:
        now = self.now()
        local = datetime.fromtimestamp(now.now_s, now.zone)
        midnight_s = datetime(local.year, local.month, local.day, tzinfo=now.zone).timestamp()
        self._today = (self.books.traffic(now)[0], self.books.history.energy_wh(midnight_s))
        self._summed_s = now.now_s
        self.probes.parts.tell_network()

    def next_s(self) -> float | None:
        """When there is something to do by itself (Unix seconds)."""
        return self.books.next_s()
