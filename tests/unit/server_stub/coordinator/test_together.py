"""Questions that are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gpugoblin.errors import CoordinatorError, GoblinError
from server_stub.coordinator.together import Together


class Clerk:
    """Doubles numbers; refuses 7, breaks at 13, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, asked: Sequence[int]) -> list[int | GoblinError]:
        self.batches.append(list(asked))
        await self.gate.wait()
        if 13 in asked:
            raise ZeroDivisionError
        return [CoordinatorError("device_unknown") if one == 7 else 2 * one for one in asked]


def test_what_waits_is_answered_together_and_apart() -> None:
    async def play() -> None:
        clerk = Clerk()
        together = Together(clerk, 3)
        clerk.gate.clear()
        first = asyncio.create_task(together.ask(1))
        await asyncio.sleep(0.01)
        rest = [asyncio.create_task(together.ask(number)) for number in (2, 7, 3, 4)]
        await asyncio.sleep(0.01)
        assert clerk.batches == [[1]], "one batch at a time"
        rest[0].cancel()
        clerk.gate.set()
        found = await asyncio.gather(first, *rest, return_exceptions=True)
        assert found[0] == 2
        assert isinstance(found[1], asyncio.CancelledError)
        assert isinstance(found[2], CoordinatorError)
        assert found[3:] == [6, 8]
        assert clerk.batches == [[1], [2, 7, 3], [4]]

    asyncio.run(play())


def test_a_defect_spoils_no_other_answer() -> None:
    async def play() -> None:
        clerk = Clerk()
        together = Together(clerk, 8)
        found = await asyncio.gather(
            *(together.ask(number) for number in (1, 13, 2)), return_exceptions=True
        )
        assert (found[0], found[2]) == (2, 4)
        assert isinstance(found[1], ZeroDivisionError)

    asyncio.run(play())


def test_a_database_that_is_away_refuses_the_batch_once() -> None:
    asked: list[int] = []

    async def away(batch: Sequence[int]) -> list[int | GoblinError]:
        asked.append(len(batch))
        raise CoordinatorError("coordinator_database_full")

    async def play() -> None:
        together = Together(away, 8)
        found = await asyncio.gather(together.ask(1), together.ask(2), return_exceptions=True)
        assert all(isinstance(one, CoordinatorError) for one in found)

    asyncio.run(play())
    assert asked == [2]
