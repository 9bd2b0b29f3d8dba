"""An agent inside a test: run with a script beside it, ended cleanly whatever happens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.agent.agent import Agent
from app.agent.card_start import CardLook, no_cards
from app.agent.fleet import EngineMaker
from app.agent.settings import Settings, read_settings
from app.agent.settings_file import SettingsFile
from app.agent.surroundings import Adjust
from tests.helpers.agent_network import FakeCoordinator, FakeLab, settings_text
from tests.helpers.agent_plain import plain_engine


class _Written(SettingsFile):
    """A scene's settings file, which is written before it is read."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.config)
        self._scene = scene

    def read(self) -> Settings:
        assert self._scene.config
        return super().read()


class Scene:
    """A coordinator, labs, and what the agent said."""

    def __init__(self, directory: Path, grant_s: float = 600.0) -> None:
        self.directory = directory
        self.coordinator = FakeCoordinator(directory, grant_s)
        self.lab = FakeLab(directory, self.coordinator)
        self.labs = [self.lab]
        self.lines: list[str] = []
        self.more: dict[str, str] = {}
        self.agent: Agent | None = None
        self.fixed_config: Path | None = None

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def config(self) -> Path:
        if self.fixed_config is not None:
            return self.fixed_config
        path = self.directory / "agent.toml"
        path.write_text(settings_text(self.state, self.coordinator, **self.more))
        return path

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def close(self) -> None:
        for lab in self.labs:
            lab.close()
        self.coordinator.close()

    def lend(
        self,
        script: Callable[[], Any],
        make: EngineMaker = plain_engine,
        adjust: Adjust = lambda machine: machine,
        look: CardLook = no_cards,
    ) -> int:
        """Runs an agent while `script` runs in a thread; the agent's exit status."""

        async def both() -> int:
            agent = Agent(
                read_settings(self.config), self.lines.append, make_engine=make, look=look,
                rng=random.Random(5), adjust=adjust, file=_Written(self),
            )  # fmt: skip
            self.agent = agent
            running = asyncio.create_task(agent.run())
            try:
                scripted = asyncio.create_task(asyncio.to_thread(script))
                await asyncio.wait([running, scripted], return_when=asyncio.FIRST_COMPLETED)
                if scripted.done():
                    scripted.result()
            finally:
                agent.ask_to_end()
                status = await running
            return status

        return asyncio.run(both())
