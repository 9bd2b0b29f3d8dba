"""Starting the engine of one found graphics card, and how much of the card a task may have.

Owns: which cards are looked for, and the settings' meaning for a card. Must not: load a driver, or
keep an engine (`fleet.py` does).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from app.agent.card_proof import warm_graphs
from app.agent.settings import Settings
from app.host.card_access import access_to
from app.host.cards import Discovery, FoundCard, find_cards
from app.host.engine import Engine
from app.host.spec import HostSpec

__all__ = [
    "CardLook",
    "CardMaker",
    "card_memory_bytes",
    "look_for_cards",
    "may_share",
    "no_cards",
    "start_card_engine",
    "start_warm_engine",
    "why_not_lent",
]

CardLook = Callable[[], Discovery]
"""Finds the graphics cards; blocks for half a second."""
CardMaker = Callable[[Settings, Path, FoundCard], Engine]
"""Starts the engine of a card or raises; blocks."""


def no_cards() -> Discovery:
    """As on a machine without any."""
    return Discovery((), ())


def look_for_cards() -> Discovery:
    """The graphics cards of this machine."""
    return find_cards()


def why_not_lent(settings: Settings, card: FoundCard) -> str:
    """One line that says why a found card is not lent at all; empty when it is."""
    if card.unsuited:
        return card.unsuited
    if card.kind == "software" and not settings.flag("cards.software"):
        return "It computes on the processor, and `cards.software` is false."
    return ""


def may_share(settings: Settings, card: FoundCard | None) -> bool:
    """May several agents lend it at once? What computes on the processor is shared like that."""
    on_processor = card is None or card.kind == "software"
    return on_processor and settings.flag("processor.share")


def card_memory_bytes(settings: Settings, card: FoundCard) -> int:
    """The most that one task may take: no more than is lent. A single tensor may have no more than
    the driver allocates at once, which its engine looks at."""
    if card.kind == "software":
        return settings.number("processor.memory_bytes")
    return card.memory_bytes * settings.number("card_memory.most_percent") // 100


def start_warm_engine(settings: Settings, state_directory: Path, card: FoundCard) -> Engine:
    """As `start_card_engine`, one that takes only the graphs of a warm-up."""
    return start_card_engine(settings, state_directory, card, warm_graphs())


def start_card_engine(
    settings: Settings,
    state_directory: Path,
    card: FoundCard,
    warms: frozenset[bytes] = frozenset(),
) -> Engine:
    """A card's engine in its sandbox, at exactly the level that the owner allows.

    Args:
        warms: the graphs that it may be given, where it only warms up.

    Raises:
        SandboxError: the level cannot be had here; it names the fix.
        EngineError: `engine_start_failed`, `card_driver_missing`, `card_node_missing`.
    """
    from app.agent.fleet import threads_of
    from app.sandbox.bwrap import INSIDE_ROOT
    from app.sandbox.driver import card_environment, driver_files
    from app.sandbox.runtime import stage

    level: Literal["full", "reduced"] = "full"
    if settings.text("sandbox.level") == "reduced":
        level = "reduced"
    memory_bytes = card_memory_bytes(settings, card)
    access = access_to(card, memory_bytes)
    runtime = stage(state_directory, driver_files(Path(card.driver_file)))
    root = INSIDE_ROOT if level == "full" else str(runtime.root)
    return Engine.start(
        HostSpec(
            runtime=runtime,
            input_bytes=settings.number("processor.input_bytes"),
            output_bytes=settings.number("processor.output_bytes"),
            threads=1,
            memory_bytes=settings.number("processor.memory_bytes"),
            backend=f"vulkan:{card.uuid}",
            level=level,
            environment=card_environment(root, access.policy, threads_of(settings)),
            card=access,
            warms=warms,
        )
    )
