"""The desk of validators: who is here, who has what, and when it is the node's again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gpugoblin.errors import GoblinError, NodeError
from server_stub.node.state.validators import Validator
from server_stub.node.validating.desk import AT_ONCE, ITEM_S, Desk
from server_stub.node.work import BlobInput, Checked, Compare, Failed

__all__: list[str] = []

ONE, TWO = Validator("one", "1" * 64), Validator("two", "2" * 64)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def item(number: int) -> Compare:
    blob = BlobInput("ab" * 32, 4, "float32", (1,))
    return Compare(f"compare.{number}", b"", "float32", (blob,), (blob,), 1)


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(body, 20))


def test_an_item_goes_to_its_validator_and_the_answer_back() -> None:
    async def body() -> None:
        desk = Desk(hold_s=0.01)
        assert await desk.take(ONE, want=True) is None
        assert await desk.take(TWO, want=False) is None
        doing = asyncio.create_task(desk.do("one", item(1)))
        await asyncio.sleep(0)
        assert [one.name for one in desk.present()] == ["two", "one"]
        assert not desk.may_read("one", "ab" * 32)
        assert await desk.take(TWO, want=True) is None
        assert await desk.take(ONE, want=True) == item(1)
        assert desk.may_read("one", "ab" * 32)
        assert not desk.may_read("two", "ab" * 32)
        assert not desk.may_read("one", "cd" * 32)
        reply = Checked("compare.1", True, "", 0.0, 1.0)
        assert not desk.answer("two", reply)
        assert desk.answer("one", reply)
        assert not desk.answer("one", reply)
        assert await doing == reply
        assert not desk.may_read("one", "ab" * 32)
        assert desk.done == {"one": 1}

    run(body())


def test_a_question_that_waits_is_answered_by_the_next_item() -> None:
    async def body() -> None:
        desk = Desk(hold_s=10)
        asking = asyncio.create_task(desk.take(ONE, want=True))
        await asyncio.sleep(0.01)
        doing = asyncio.create_task(desk.do("one", item(1)))
        assert await asking == item(1)
        desk.answer("one", Failed("compare.1", "StoreError", "blob_missing", {"blob": "x"}))
        with pytest.raises(GoblinError) as caught:
            await doing
        assert caught.value.code == "blob_missing"

    run(body())


def test_nobody_gets_more_than_it_has_room_for() -> None:
    async def body() -> None:
        desk = Desk(hold_s=0.01)
        await desk.take(ONE, want=False)
        doing = [asyncio.create_task(desk.do("one", item(n))) for n in range(AT_ONCE)]
        await asyncio.sleep(0)
        assert desk.present() == []
        for task in doing:
            task.cancel()
        await asyncio.gather(*doing, return_exceptions=True)
        assert desk.present() == [ONE]
        assert await desk.take(ONE, want=True) is None

    run(body())


@pytest.mark.parametrize("heard", [False, True])
def test_who_is_silent_or_slow_for_too_long_loses_the_item(heard: bool) -> None:
    async def body() -> None:
        clock = Clock()
        desk = Desk(clock.monotonic_s, hold_s=0.01, lost_s=0.08)
        await desk.take(ONE, want=False)
        doing = asyncio.create_task(desk.do("one", item(1)))
        await asyncio.sleep(0)
        assert await desk.take(ONE, want=True) == item(1)
        clock.now_s = ITEM_S + 1 if heard else 1.0
        if heard:
            await desk.take(ONE, want=False)
        with pytest.raises(NodeError) as caught:
            await doing
        assert caught.value.code == "validator_lost"
        assert not desk.answer("one", Checked("compare.1", True, "", 0.0, 1.0))
        assert desk.present() == ([ONE] if heard else [])

    run(body())


def test_an_item_that_never_arrived_is_the_node_s_again() -> None:
    async def body() -> None:
        clock = Clock()
        desk = Desk(clock.monotonic_s, hold_s=0.01, lost_s=0.08)
        await desk.take(ONE, want=False)
        doing = [asyncio.create_task(desk.do("one", item(n))) for n in range(2)]
        await asyncio.sleep(0)
        for n in range(2):
            assert await desk.take(ONE, want=True) == item(n)
        await desk.take(ONE, want=False)
        assert desk.may_read("one", "ab" * 32)
        clock.now_s = 0.1
        await desk.take(ONE, want=False, has=("compare.1",))
        with pytest.raises(NodeError) as caught:
            await doing[0]
        assert caught.value.code == "validator_lost"
        reply = Checked("compare.1", True, "", 0.0, 1.0)
        assert desk.answer("one", reply)
        assert await doing[1] == reply

    run(body())


def test_questions_that_are_held_end_with_the_node() -> None:
    async def body() -> None:
        desk = Desk(hold_s=60.0)
        asking = asyncio.create_task(desk.take(ONE, want=True))
        await asyncio.sleep(0.01)
        desk.stop()
        assert await asking is None
        assert await desk.take(ONE, want=True) is None

    run(body())


def test_who_is_sent_away_or_known_otherwise_loses_the_item() -> None:
    async def body() -> None:
        desk = Desk(hold_s=0.01, lost_s=0.08)
        with pytest.raises(NodeError):
            await desk.do("one", item(1))
        await desk.take(ONE, want=False)
        doing = asyncio.create_task(desk.do("one", item(1)))
        await asyncio.sleep(0)
        desk.send_away(["one", "two"])
        with pytest.raises(NodeError) as caught:
            await doing
        assert caught.value.code == "validator_lost"

    run(body())
