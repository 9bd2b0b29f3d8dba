"""The feed of events."""

from __future__ import annotations

import asyncio

from server_stub.node.executors.base import EventFeed, ExecutorEvent

__all__: list[str] = []


def test_every_reader_sees_what_comes_after_it_began() -> None:
    async def play() -> None:
        feed = EventFeed()
        first = feed.read()
        feed.put("leased", "a")
        second = feed.read()
        feed.put("finished", "a")
        feed.close()
        assert [e async for e in first] == [
            ExecutorEvent("leased", "a"), ExecutorEvent("finished", "a"),
        ]  # fmt: skip
        assert [e async for e in second] == [ExecutorEvent("finished", "a")]
        assert [e async for e in feed.read()] == []

    asyncio.run(play())


def test_a_reader_that_sleeps_loses_the_oldest() -> None:
    async def play() -> None:
        feed = EventFeed()
        reader = feed.read()
        for number in range(EventFeed.MAX_WAITING + 10):
            feed.put("leased", str(number))
        feed.close()
        found = [event.lease async for event in reader]
        assert found[0] == "10"
        assert len(found) == EventFeed.MAX_WAITING

    asyncio.run(play())
