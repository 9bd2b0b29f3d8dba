"""The agent as a program of its own, its engine at a level that the test names.

`python -m tests.helpers.agent_plain LEVEL CONFIG`: `none` is for tests alone; no setting allows it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app.agent.agent import Agent
from app.agent.fleet import start_engine, threads_of
from app.agent.settings import Settings, read_settings
from app.host.engine import Engine
from app.host.spec import HostSpec


def plain_engine(settings: Settings, state_directory: Path) -> Engine:
    """An engine without walls."""
    from app.sandbox.plain import installed_runtime

    return Engine.start(
        HostSpec(
            runtime=installed_runtime(),
            input_bytes=settings.number("processor.input_bytes"),
            output_bytes=settings.number("processor.output_bytes"),
            threads=threads_of(settings),
            memory_bytes=settings.number("processor.memory_bytes"),
            level="none",
        )
    )


def main(level: str, config: str) -> int:
    make = plain_engine if level == "none" else start_engine

    async def lend() -> int:
        settings = read_settings(Path(config))
        return await Agent(settings, lambda line: print(line, flush=True), make_engine=make).run()

    return asyncio.run(lend())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
