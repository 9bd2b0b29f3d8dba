"""The helper of a desktop session: tells an agent of the system whether somebody uses the desktop.

Owns: the same probes that an agent of this user would have, and one connection to the agent's
socket. Must not: lend, decide, or hold anything up: it delays no sleep, and when it ends, its
desktop is unknown to the agent, which then does not lend.

`python -I -m app.session [--control /run/gpugoblin]`, once in each session.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Final

from app.control.messages import (
    MAX_LINE_BYTES,
    VERSION,
    Hello,
    Refused,
    SessionReport,
    decode_answer,
    encode,
)
from app.control.paths import SOCKET_NAME, socket_path
from app.policy.snapshot import PlayFacts
from app.probes.board import FactBoard
from app.probes.gather import RETRY_S, Machine, Probes
from app.probes.idle.terminals import TerminalProbe
from app.probes.polls import Pace
from gpugoblin.errors import AgentError

__all__ = ["Helper", "machine_here", "main", "report_of"]

SYSTEM_DIRECTORY: Final = Path("/run/gpugoblin")
SPEAK_S: Final = 10.0
"""A word holds for thirty seconds; three may be lost."""

REST_S: Final = 0.2
ANSWER_S: Final = 10.0


@dataclass(slots=True)
class _Unscanned:
    """The agent itself looks at processes; here only the session's bus and display are asked."""

    name: str = "play"
    periods_s: dict[Pace, float] = field(
        default_factory=lambda: {"off": 3600.0, "waiting": 3600.0, "lending": 3600.0}
    )

    def look(self) -> PlayFacts:
        return PlayFacts()


def machine_here() -> Machine:
    """What the probes of a session need to know."""
    return Machine(
        now_s=time.time,
        disk=Path("/"),
        ours=lambda: (),
        held=lambda: (),
        listed=lambda: (),
        traffic=lambda: (0, 0),
        polled=(TerminalProbe(time.time), _Unscanned()),
        delays_sleep=False,
    )


def report_of(request: int, board: FactBoard) -> SessionReport:
    """What is known now, in the words of the control socket."""
    now = board.snapshot(time.time(), time.monotonic(), ())
    idle, play = now.idle, now.play or PlayFacts()
    return SessionReport(
        request,
        is_known=idle is not None,
        why="" if idle is not None else now.why_unknown.get("idle", "it was not looked at yet"),
        last_input_s=0.0 if idle is None else max(idle.last_input_s, 0.0),
        is_active=idle is not None and idle.is_active,
        awake_for="" if idle is None else idle.awake_for,
        games=play.games[:64],
        full_screen=play.full_screen,
        play_why=now.why_unknown.get("play", "") if now.play is None else "",
    )


class Helper:
    """Tells one agent until it is cancelled.

    Args:
        directory: of the agent's socket.
    """

    def __init__(self, directory: Path, machine: Machine) -> None:
        self._directory = directory
        self._changed = asyncio.Event()
        self.board = FactBoard(self._changed.set, lambda: UTC)
        self.probes = Probes(self.board, machine)
        self._number = 0

    async def run(self) -> None:
        """Tells for ever; an agent that is away is tried again, later and later."""
        self.probes.start()
        self.probes.set_pace("waiting")
        tries = 0
        try:
            while True:
                try:
                    await self._tell()
                except (OSError, EOFError, TimeoutError, AgentError):
                    tries = tries + 1 if self._number == 0 else 1
                self._number = 0
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S)) - 1])
        finally:
            await self.probes.close()

    async def _tell(self) -> None:
        with socket_path(self._directory) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
        try:
            writer.write(encode(Hello(VERSION)))
            async with asyncio.timeout(ANSWER_S):
                await reader.readline()
            while True:
                self._changed.clear()
                report = report_of(self._number + 1, self.board)
                writer.write(encode(report))
                async with asyncio.timeout(ANSWER_S):
                    line = await reader.readline()
                if not line or isinstance(decode_answer(line), Refused):
                    raise EOFError
                self._number += 1
                await asyncio.sleep(REST_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SPEAK_S):
                        await self._changed.wait()
        finally:
            writer.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="gpugoblin-session",
        description="Tell an agent of the system whether somebody uses this desktop.",
    )
    parser.add_argument(
        "--control",
        type=Path,
        default=SYSTEM_DIRECTORY,
        metavar="DIRECTORY",
        help=f"where the agent's control socket ({SOCKET_NAME}) lies",
    )
    options = parser.parse_args(arguments)

    async def whole() -> None:
        task = asyncio.ensure_future(Helper(options.control, machine_here()).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(whole())
    return 0


if __name__ == "__main__":
    sys.exit(main())
