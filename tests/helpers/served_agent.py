"""A fake agent that serves a recording from a thread, for windows and commands.

Owns: the thread and its loop. A test steps through the recording and looks at what was asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from app.control.fake_agent import FakeAgent, load
from app.control.messages import Item, Request

__all__ = ["RECORDINGS", "ServedAgent"]

RECORDINGS: Final = Path(__file__).parent.parent / "golden" / "recordings"
START_S: Final = 20.0


class ServedAgent:
    """Serves `name` from `directory` (mode 0700) from its first step on."""

    def __init__(self, name: str, directory: Path) -> None:
        self.directory = directory
        self._recording = load(RECORDINGS / f"{name}.jsonl")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake-agent", daemon=True)
        self._ready = threading.Event()
        self._agent: FakeAgent | None = None

    @property
    def agent(self) -> FakeAgent:
        assert self._agent is not None
        return self._agent

    @property
    def asked(self) -> list[Request]:
        return self.agent.asked

    @property
    def steps(self) -> int:
        return len(self._recording.steps)

    def step(self, number: int) -> None:
        """Shows a step of the recording."""
        self._call(lambda: self.agent.step(number))

    def show(self, items: dict[str, Item]) -> None:
        """Shows these items instead."""

        def work() -> None:
            self.agent.items = items
            self.agent._show()

        self._call(work)

    def __enter__(self) -> ServedAgent:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self._thread.start()
        assert self._ready.wait(START_S)
        self.step(0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self.agent.close(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._agent = FakeAgent(self._recording, self.directory)
        self._loop.run_until_complete(self._agent.start())
        self._ready.set()
        self._loop.run_forever()

    def _call(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_S)
