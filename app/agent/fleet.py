"""The cards of this machine and their engines, for the shell.

Owns: which cards there are, their locks, their engines, what they can do. Must not: decide when an
engine runs. The processor is card 0; graphics cards follow in the order of their identities when
they are first seen, and keep their numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar

from app.agent.calibration import UNKNOWN
from app.agent.card_engine import CardEngine, Computed
from app.agent.card_numbers import CardNumbers
from app.agent.card_proof import CardProof, WarmUp
from app.agent.card_record import CardRecords
from app.agent.card_start import (
    CardMaker,
    card_memory_bytes,
    may_share,
    start_card_engine,
    why_not_lent,
)
from app.agent.events import Event
from app.agent.kernel_store import KernelStore
from app.agent.lane import Lane
from app.agent.locks import CardLock, take_card
from app.agent.settings import Settings
from app.host.cards import Discovery, FoundCard
from app.host.engine import Engine
from app.host.spec import HostSpec
from gpugoblin import __version__
from gpugoblin.ids import LeaseId
from gpugoblin.wire.messages.contact import CardClass
from gpugoblin.wire.messages.task import Capabilities

__all__ = ["Card", "EngineMaker", "Fleet", "Guest", "start_engine", "threads_of"]

T = TypeVar("T")

EngineMaker = Callable[[Settings, Path], Engine]
"""Starts an engine at the level of the settings or raises; blocks. A parameter for tests."""

POOL_THREADS: Final = 2
LAUNCHER_LIMIT_S: Final = 2.0
"""How long the launcher may take for its end: all that it was asked is done by then."""


def threads_of(settings: Settings) -> int:
    """Worker threads of the processor's engine."""
    return settings.number("processor.threads") or len(os.sched_getaffinity(0))


def start_engine(settings: Settings, state_directory: Path) -> Engine:
    """The processor's engine in its sandbox, at exactly the level that the owner allows.

    Raises:
        SandboxError: the level cannot be had here; it names the fix.
        EngineError: `engine_start_failed`.
    """
    from app.sandbox.runtime import stage

    level: Literal["full", "reduced"] = "full"
    if settings.text("sandbox.level") == "reduced":
        level = "reduced"
    return Engine.start(
        HostSpec(
            runtime=stage(state_directory),
            input_bytes=settings.number("processor.input_bytes"),
            output_bytes=settings.number("processor.output_bytes"),
            threads=threads_of(settings),
            memory_bytes=settings.number("processor.memory_bytes"),
            level=level,
        )
    )


@dataclass(slots=True)
class Card:
    """One card: its engine and, while that runs, its lock. `identity` names it on the machine.

    `found`: how its driver describes it; None for the processor. `make` starts an engine and
    `take` takes the lock: both block, on the launcher's lane.
    """

    number: int
    kind: Literal["cpu", "vulkan", "cuda"]
    identity: str
    engine: CardEngine
    make: Callable[[], Engine]
    take: Callable[[], CardLock]
    found: FoundCard | None = None
    lock: CardLock | None = None
    done: int = 0


@dataclass(frozen=True, slots=True)
class Guest:
    """An engine that runs for a measurement, and its card."""

    identity: str
    engine: Engine


@dataclass(slots=True)
class Fleet:
    """All cards. Methods belong to the loop's thread unless said."""

    settings: Settings
    state_directory: Path
    make: EngineMaker
    post: Callable[..., None]
    keep: Callable[[LeaseId, Computed], None]
    lost: Callable[[float], None] = lambda seconds: None
    make_card: CardMaker = start_card_engine
    warm_card: CardMaker | None = None
    cards: dict[int, Card] = field(default_factory=dict)
    records: CardRecords = field(init=False)
    numbers: CardNumbers = field(init=False)
    _guest: Guest | None = None
    _launcher: Lane = field(default_factory=lambda: Lane("launcher"))
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="hashing")
    )

    def __post_init__(self) -> None:
        self.records = CardRecords(self.state_directory)
        self.numbers = CardNumbers(self.state_directory)

    def find(self, discovery: Discovery | None = None) -> None:
        """Numbers the cards: the processor is 0, lent or not, and the found ones follow."""
        if self.settings.flag("processor.lend"):
            self._add(0, "cpu", "cpu", None)
        if discovery is not None:
            self.take(discovery, lambda number: True)

    def take(
        self, discovery: Discovery, is_absent: Callable[[int], bool]
    ) -> tuple[tuple[Card, ...], bool]:
        """Takes the cards that are new, and what is new of those that are known.

        Args:
            is_absent: does no engine of this card run, nor start?

        Returns:
            The new cards, and False where a known one is another now and its engine still runs:
            it stays as it was, to be taken later.
        """
        able = {
            card.identity: card
            for card in discovery.cards if not why_not_lent(self.settings, card)
        }  # fmt: skip
        new: list[Card] = []
        is_whole = True
        for identity, number in self.numbers.of(list(able)).items():
            known, found = self.cards.get(number), able[identity]
            if known is not None and known.identity == identity and known.found == found:
                continue
            if known is not None and not is_absent(number):
                is_whole = False
                continue
            self._add(number, "vulkan", identity, found)
            if known is None:
                new.append(self.cards[number])
            elif known.identity == identity:
                self.cards[number].done = known.done
        return tuple(new), is_whole

    def _add(
        self,
        number: int,
        kind: Literal["cpu", "vulkan", "cuda"],
        identity: str,
        found: FoundCard | None,
    ) -> None:
        def make() -> Engine:
            if found is not None:
                return self.make_card(self.settings, self.state_directory, found)
            return self.make(self.settings, self.state_directory)

        def take() -> CardLock:
            return take_card(identity, is_shared=may_share(self.settings, found))

        def lock() -> None:
            # On the launcher lane: the lock first, so that no second engine even starts.
            card = self.cards[number]
            if card.lock is None:
                card.lock = take()

        def start() -> Engine:
            lock()
            return make()

        pool: Executor = self._pool
        proof = CardProof(identity, self.records, warm_up=self._warm_up(identity, found))

        def warm(look: Callable[[], None]) -> None:
            lock()
            proof.warm(look)

        engine = CardEngine(
            number,
            start,
            self._launcher,
            pool,
            self._told,
            self._kept,
            is_partial=found is not None,
            proof=proof,
            warm=warm,
            failed=proof.failed,
            lost=self.lost,
        )
        self.cards[number] = Card(number, kind, identity, engine, make, take, found)

    def _warm_up(self, identity: str, found: FoundCard | None) -> WarmUp | None:
        """None where nothing is kept: the processor has no driver that compiles, and the drivers
        that compute on it export nothing."""
        start = self.warm_card
        if found is None or found.kind == "software" or start is None:
            return None
        return WarmUp(
            driver=f"{found.driver} {__version__}",
            start=lambda: start(self.settings, self.state_directory, found),
            store=KernelStore(self.state_directory),
            host=lambda engine: self.host(None if engine is None else Guest(identity, engine)),
        )

    def _told(self, event: Event) -> None:
        name = type(event).__name__
        if name in ("EngineDied", "EngineStopped", "EngineRefused"):
            self._unlock(event)
        self.post(event)

    def _unlock(self, event: Event) -> None:
        card = self.cards[getattr(event, "card")]  # noqa: B009 - one of three kinds with a card
        if card.lock is not None:
            card.lock.release()
            card.lock = None

    def _kept(self, lease: LeaseId, computed: Computed) -> None:
        self.keep(lease, computed)

    def launch(self, work: Callable[[], T]) -> Future[T]:
        """Runs work on the launcher's lane, between the starts of engines."""
        return self._launcher.call(work)

    def host(self, guest: Guest | None) -> None:
        """Names the engine that is on trial now, so that it is not taken for somebody else's."""
        self._guest = guest

    def pids(self) -> tuple[int, ...]:
        """The processes of all engines that run. From any thread."""
        guest = self._guest
        return (
            *(pid for card in list(self.cards.values()) for pid in card.engine.pids()),
            *(() if guest is None else guest.engine.pids),
        )

    def held(self) -> tuple[str, ...]:
        """Identities of the cards that are lent here now, or on trial. From any thread."""
        guest = self._guest
        return (
            *(each.identity for each in list(self.cards.values()) if each.lock is not None),
            *(() if guest is None else (guest.identity,)),
        )

    def close(self) -> None:
        """Ends the launcher and the pool; engines must be gone before."""
        self._launcher.end()
        self._launcher.join(LAUNCHER_LIMIT_S)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for card in self.cards.values():
            if card.lock is not None:
                card.lock.release()
                card.lock = None

    # -- what the network asks ---------------------------------------------------------------

    def classes(self) -> tuple[CardClass, ...]:
        """Every card that was measured, as the coordinator may know it."""
        found = []
        for card in self.cards.values():
            ready = card.engine.ready
            if ready is not None:
                found.append(
                    CardClass(
                        card=card.number,
                        kind=card.kind,
                        memory_bytes=self._memory_bytes(card),
                        classes=ready.classes,
                        sandbox_level=ready.level,
                        engine_build=ready.build,
                        catalog_hash=ready.catalog_hash,
                    )
                )
        return tuple(found)

    def _memory_bytes(self, card: Card) -> int:
        if card.found is None:
            return self.settings.number("processor.memory_bytes")
        return card_memory_bytes(self.settings, card.found)

    def capabilities(self, number: int) -> Capabilities:
        """What a measured card can do, as its lab may know it.

        The operators are those of the catalog that `catalog_hash` names, so they are not listed; a
        graphics card lists those that it has, and what is decomposed into them it has too. Dtypes
        and classes are the engine's own words.
        """
        card = self.cards[number]
        engine = card.engine
        ready, rates = engine.ready, engine.rates or UNKNOWN
        if ready is None:
            raise LookupError(f"card {number} was never measured")
        return Capabilities(
            catalog_hash=ready.catalog_hash,
            operators=_operators(card),
            classes=ready.classes,
            memory_bytes=self._memory_bytes(card),
            # Two tasks lie in the arenas at once, and one blob of theirs may be shared.
            max_slot_bytes=min(
                self.settings.number("processor.input_bytes") // 3,
                self.settings.number("processor.output_bytes") // 2,
            ),
            max_outputs=64,
            flops_per_s=rates.flops_per_s,
            bytes_per_s=rates.bytes_per_s,
            sandbox_level=ready.level,
            engine_build=ready.build,
            driver=ready.driver,
            kernel_set=ready.kernel_set,
            dtypes=ready.dtypes,
            arithmetic=ready.arithmetic,
            convolutions=ready.convolutions,
        )


def _operators(card: Card) -> dict[str, int]:
    """Name and version of each operator with a kernel; empty for the processor."""
    pairs = [key.partition("@") for key in card.found.operators] if card.found is not None else []
    return {name: int(version) for name, _, version in pairs if version.isdigit()}
