"""What a card's fresh engines must show, and what they are told: known answers, kept kernels.

Owns: how much is asked, what is remembered of it, and the warm-up. Must not: end an engine that
works. A warm-up is an engine of its own that sees known graphs only and is then ended; what it
compiled is given to those that work, and nothing that one of those compiled is ever kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from app.agent.answers import cases
from app.agent.calibration import PRODUCT_GRAPH, SUM_GRAPH, calibrate
from app.agent.card_record import CardRecord, CardRecords, record_key
from app.agent.kernel_store import MOST_BYTES, KernelStore
from app.agent.own_task import await_ready, heard
from app.agent.proof import prove
from app.host.engine import Engine
from app.host.spec import Exported, Prepared
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import EngineError

__all__ = ["LIES", "CardProof", "WarmUp", "warm_graphs"]

LIES: Final = frozenset({"card_lied", "card_broken"})
"""Codes that say that a card does not compute what it should."""

MOST_REFUSED: Final = 64

SUSPICION_S: Final = 86400.0
"""How long kernels are suspected that ran when the card was lost. Games, a sleep and a new driver
lose cards too: what was lost long ago says nothing about the kernel that runs now."""

MOST_UNTAKEN: Final = 2
"""After so many files that its driver did not take back a card starts cold."""

GONE: Final = ("engine_died", "engine_silent")
"""Ends of an engine over what it was asked about its kernels."""

Look = Callable[[], None]


def warm_graphs() -> frozenset[bytes]:
    """All that an engine is given that warms up: none is of a lab."""
    return frozenset(case.graph for case in cases()) | {PRODUCT_GRAPH, SUM_GRAPH}


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How a card is warmed up.

    Args:
        driver: as it is known before an engine starts; another one means another warm-up.
        start: starts an engine that takes `warm_graphs` only; blocks.
        store: where its kernels are kept.
        host: told the engine while it runs, and None after.
    """

    driver: str
    start: Callable[[], Engine]
    store: KernelStore
    host: Callable[[Engine | None], None]


class CardProof:
    """A `Proof` for the engines of one card. Blocks: for the launcher's lane."""

    def __init__(
        self,
        identity: str,
        records: CardRecords,
        clock: Clock | None = None,
        warm_up: WarmUp | None = None,
    ) -> None:
        self._identity = identity
        self._records = records
        self._clock = clock or SystemClock()
        self._warm_up = warm_up
        self._key = ""

    # -- the warm-up ---------------------------------------------------------------------------

    def warm(self, look: Look) -> None:
        """Compiles and keeps kernels where none are kept for this driver. Before an engine starts.

        Raises:
            EngineError, SandboxError: as `__call__`, or why no engine starts; what `look` does.
        """
        plan = self._warm_up
        if plan is None or self._is_warm(plan):
            return
        look()
        engine = plan.start()
        try:
            plan.host(engine)
            await_ready(engine, look)
            self(engine, look, is_warming=True)
            calibrate(engine, look)
            data = _exported(engine, look)
        finally:
            engine.close()
            plan.host(None)  # when it is gone: until then the card is used by it
        compiled = plan.store.keep(self._identity, data)
        self._change(warmed=plan.driver, compiled=compiled)

    def _is_warm(self, plan: WarmUp) -> bool:
        known = self._records.of(self._identity)
        if known.warmed != plan.driver:
            return False
        return not known.compiled or plan.store.load(self._identity, known.compiled) is not None

    # -- the proof -----------------------------------------------------------------------------

    def __call__(self, engine: Engine, look: Look, *, is_warming: bool = False) -> None:
        """Raises EngineError `card_lied`, `card_broken`, `card_lost`; why the engine died; what
        `look` does."""
        if engine.ready is None:
            return
        self._key = record_key(engine.ready)
        known = self._records.known(self._identity, self._key)
        try:
            self._prepare(engine, known, look, is_warming=is_warming)
            prove(engine, cases()[:1] if known.proven_s and not is_warming else cases(), look)
        except EngineError as error:
            self.failed(error)
            raise
        if not known.proven_s:
            self._change(proven_s=self._clock.wall_s(), fault="", fix="")

    def _prepare(self, engine: Engine, known: CardRecord, look: Look, *, is_warming: bool) -> None:
        data = None
        if self._warm_up is not None and known.compiled and not is_warming:
            data = self._warm_up.store.load(self._identity, known.compiled)
        alone = _suspects(known, self._clock.wall_s())
        if not (known.refused or alone or data):
            return
        slot = None
        if data:
            slot = engine.inputs.allocate(len(data))
            with engine.inputs.view(slot) as view:
                view[:] = data
        try:
            engine.prepare(known.refused, alone, slot)
            accepted = heard(engine, (Prepared,), look).accepted
        except EngineError as error:
            if data and error.code in GONE:
                self._not_taken(known)
            raise
        finally:
            if slot is not None:
                engine.inputs.free(slot)
        if data and not accepted:
            self._not_taken(known)
        elif data and known.untaken:
            self._change(untaken=0)

    def _not_taken(self, known: CardRecord) -> None:
        """Of another driver of the same name, or one that cannot: made again, but not for ever."""
        untaken = known.untaken + 1
        warmed = known.warmed if untaken >= MOST_UNTAKEN else ""
        self._change(warmed=warmed, compiled="", untaken=untaken)

    # -- faults --------------------------------------------------------------------------------

    def failed(self, error: EngineError) -> None:
        """Remembers why an engine of this card ended, where that says something about the card."""
        if not self._key:  # it ended before it was ready: nothing is known of its driver
            return
        if error.code in LIES:
            self._change(proven_s=0.0, fault=error.what[:1000], fix=error.next_step[:1000])
        elif error.code == "card_lost":
            kernels = error.fields.get("kernels", ())
            names = tuple(map(str, kernels)) if isinstance(kernels, tuple) else ()
            now_s = self._clock.wall_s()
            self._records.change(
                self._identity, self._key, lambda old: _after_loss(old, names, now_s)
            )

    def _change(self, **fields: float | str) -> None:
        self._records.change(
            self._identity, self._key, lambda old: msgspec.structs.replace(old, **fields)
        )


def _suspects(record: CardRecord, now_s: float) -> tuple[str, ...]:
    return record.suspects if 0.0 <= now_s - record.suspected_s <= SUSPICION_S else ()


def _after_loss(old: CardRecord, kernels: tuple[str, ...], now_s: float) -> CardRecord:
    """A kernel that was suspected, ran by itself, and lost the card again is not used any more. Of
    several that ran side by side each is suspected, and runs by itself from now on."""
    if not kernels:
        return old
    if len(kernels) == 1 and kernels[0] in _suspects(old, now_s):
        refused = tuple(dict.fromkeys((*old.refused, *kernels)))[-MOST_REFUSED:]
        return msgspec.structs.replace(old, refused=refused, suspects=())
    return msgspec.structs.replace(old, suspects=kernels[:MOST_REFUSED], suspected_s=now_s)


def _exported(engine: Engine, look: Look) -> bytes:
    """What an engine that warms up has compiled; empty where its driver gives nothing."""
    slot = engine.outputs.allocate(min(MOST_BYTES, engine.outputs.size_bytes // 2))
    engine.export(slot)
    try:
        nbytes = heard(engine, (Exported,), look).nbytes
    except EngineError as error:
        if error.code not in GONE:
            raise
        return b""  # its driver cannot: the card is lent all the same, and starts cold
    return bytes(engine.outputs.view(slot)[: min(nbytes, slot.nbytes)])
