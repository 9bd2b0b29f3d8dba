"""Reads a service again whenever it says that something has changed, one reading at a time.

Owns: the repetition. Must not: know what is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.probes.desktop.bus import BusFault

__all__ = ["follow"]


async def follow(
    read: Callable[[], Awaitable[None]],
    failed: Callable[[BusFault], None],
    poke: asyncio.Event,
    every_s: float,
) -> None:
    """Reads now, after every poke, and every so often, until it is cancelled."""
    while True:
        poke.clear()
        try:
            await read()
        except BusFault as fault:
            failed(fault)
        except (LookupError, TypeError, ValueError) as error:
            failed(BusFault(f"an answer of another shape ({type(error).__name__})"))
        try:
            async with asyncio.timeout(every_s):
                await poke.wait()
        except TimeoutError:
            continue
