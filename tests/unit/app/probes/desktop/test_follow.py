"""Reading again and again: pokes, faults, and answers of another shape."""

from __future__ import annotations

import asyncio

from app.probes.desktop.bus import BusFault
from app.probes.desktop.follow import follow


def test_pokes_and_faults() -> None:
    async def script() -> tuple[int, list[str]]:
        count, failed, poke = 0, list[str](), asyncio.Event()

        async def read() -> None:
            nonlocal count
            count += 1
            if count == 2:
                raise BusFault("it hangs")
            if count == 3:
                raise KeyError("x")

        task = asyncio.ensure_future(follow(read, lambda f: failed.append(str(f)), poke, 60.0))
        for wanted in (1, 2, 3, 4):
            while count < wanted:
                await asyncio.sleep(0.001)
            poke.set()
        task.cancel()
        await asyncio.wait([task])
        return count, failed

    count, failed = asyncio.run(script())
    assert count >= 4
    assert failed == ["it hangs", "an answer of another shape (KeyError)"]
