"""Cards that come while the agent runs: plugged in, or with a driver that is loaded late.

Owns: when the drivers are asked again, and that each answer reaches the fleet. Must not: load a
driver; judge a card. Asking takes children and half a second, so it is done where something has
changed of what a card needs to be found, and once more a while later: a device's node is there
before its driver answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from app.agent.card_start import CardLook
from app.agent.fleet import Card, Fleet
from app.agent.lane import Lane
from app.agent.speech import Speech
from app.host.cards import driver_files

__all__ = ["PLACES", "LateCards", "hardware"]

CALM_S: Final = 2.0
"""How long after the kernel's last word: it comes in bursts."""
PERIOD_S: Final = 60.0
"""How often it is looked by itself: nobody tells of a driver's registration."""
LOOKS: Final = 2

PLACES: Final = (
    Path("/dev/dri"), Path("/dev/dri/by-path"), Path("/dev"), Path("/proc/driver/nvidia/gpus"),
)  # fmt: skip
_NODES: Final = ("renderD", "nvidia", "pci-", "0")
"""How the names begin that count; an address of PCI begins with its domain."""


def hardware(
    places: Iterable[Path] = PLACES, drivers: Callable[[], Iterable[Path]] = driver_files
) -> frozenset[tuple[str, int]]:
    """What a card needs to be found: nodes, and registrations of drivers with their times."""
    found: set[tuple[str, int]] = set()
    for place in places:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        found.update((str(place / name), 0) for name in names if name.startswith(_NODES))
    for file in drivers():
        try:
            found.add((str(file), file.stat().st_mtime_ns))
        except OSError:
            continue
    return frozenset(found)


class LateCards:
    """Finds the cards of a fleet, at once and later. Belongs to the loop's thread.

    Args:
        look: asks the drivers; blocks.
        joined: told the cards that are new to the fleet, which has them already.
        is_absent: does no engine of this card run, nor start?

    `discovery` is what the drivers said last.
    """

    def __init__(
        self,
        look: CardLook,
        fleet: Fleet,
        speech: Speech,
        joined: Callable[[tuple[Card, ...]], None],
        is_absent: Callable[[int], bool],
    ) -> None:
        self._look = look
        self._fleet = fleet
        self._speech = speech
        self._joined = joined
        self._is_absent = is_absent
        self._poke = asyncio.Event()
        self._told: frozenset[str] = frozenset()
        self._looks = 0
        self._seen = hardware()
        self.discovery = look()
        fleet.find(self.discovery)
        self._say_troubles()

    def poke(self) -> None:
        """The kernel says that something came or went."""
        self._poke.set()

    async def follow(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await self._wait()
            seen = hardware()
            if seen != self._seen:
                self._looks = LOOKS
            self._seen = seen  # of before: what changes meanwhile is looked at again
            if self._looks and await self._ask():
                self._looks -= 1

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(PERIOD_S):
                await self._poke.wait()
            await asyncio.sleep(CALM_S)
        except TimeoutError:
            pass
        self._poke.clear()

    async def _ask(self) -> bool:
        """Asks the drivers; False when that has to be done again."""
        lane = Lane("cards")  # a driver may hang, and the agent's end does not wait for it
        try:
            self.discovery = await asyncio.wrap_future(lane.call(self._look))
        except (OSError, RuntimeError):
            return False  # no child, or no thread, could be started now
        finally:
            lane.end()
        new, is_whole = self._fleet.take(self.discovery, self._is_absent)
        self._say_troubles()
        for card in new:
            name = "" if card.found is None else card.found.name
            self._speech.say("card_came", card=card.number, name=name)
        if new:
            self._joined(new)
        return is_whole

    def _say_troubles(self) -> None:
        """A line for each trouble that is new."""
        told = self._told
        self._told = frozenset(trouble.what for trouble in self.discovery.troubles)
        for trouble in self.discovery.troubles:
            if trouble.what not in told:
                self._speech.say("card_unfound", why=trouble.what, fix=trouble.next_step)
