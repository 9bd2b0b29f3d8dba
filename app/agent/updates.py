"""Once a day: is there a newer version? Announced, never installed.

Owns: when to look, the child that looks (`app.update.look`), and what is said of its answer. Must
not: load python-tuf or fetch anything itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from app.update.announcement import is_newer
from app.update.trust import shipped
from gpugoblin import __version__
from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError

__all__ = ["DAY_S", "Answer", "Updates", "ask"]

DAY_S: Final = 24 * 3600.0
FIRST_S: Final = 600.0
"""At the earliest so long after the start: whoever has just logged in waits for other things."""

PATIENCE_DAYS: Final = 30
"""A repository that has been away for longer is spoken of: somebody may be holding it back."""

ASK_LIMIT_S: Final = 60.0
MAX_ANSWER_BYTES: Final = 8192

_Field = Annotated[str, Meta(max_length=1000)]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one line of the child: a version, or the code and the fields of an error; or nothing."""

    version: _Field = ""
    page: _Field = ""
    code: _Field = ""
    address: _Field = ""
    path: _Field = ""
    reason: _Field = ""


async def ask(state: Path, trust: Path) -> Answer:
    """Runs the child to its end, or ends it; never takes longer than a minute.

    Raises:
        AgentError: `update_away`, when it says nothing that can be read.
    """
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "app.update.look", str(state), str(trust),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as cause:  # the disk is full, or there is no process to be had
        raise AgentError("update_away", address="the child", reason=str(cause)) from cause
    try:
        if child.stdout is None:
            raise AgentError("update_away", address="the child", reason="it has no output")
        async with asyncio.timeout(ASK_LIMIT_S):
            line = await child.stdout.read(MAX_ANSWER_BYTES)
            await child.wait()
        return msgspec.json.decode(line, type=Answer)
    except (TimeoutError, msgspec.DecodeError) as cause:
        reason = str(cause) or "it took too long"
        raise AgentError("update_away", address="the child", reason=reason) from cause
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


class Updates:
    """Belongs to one agent.

    Args:
        is_wanted: the setting, asked each time.
        state: a folder of the agent's for what the repository has said.
        announce: takes the code of a line, and its fields.
        trust: the folder with what is trusted; without it nothing is ever asked.
    """

    def __init__(
        self,
        is_wanted: Callable[[], bool],
        state: Path,
        announce: Callable[[str, dict[str, object]], None],
        clock: Clock,
        rng: random.Random,
        *,
        trust: Path | None = None,
        asks: Callable[[Path, Path], Awaitable[Answer]] = ask,
        own: str = __version__,
    ) -> None:
        self._is_wanted = is_wanted
        self._state = state
        self._announce = announce
        self._clock = clock
        self._rng = rng
        self._trust = shipped() if trust is None else trust
        self._asks = asks
        self._own = own

    async def follow(self) -> None:
        """Looks once a day until it is cancelled; returns at once where nothing is trusted."""
        if not (self._trust / "root.json").exists():
            return
        while True:
            await asyncio.sleep(self.wait_s())
            if self._is_wanted():
                await self.look()
            else:
                await asyncio.sleep(DAY_S)

    def wait_s(self) -> float:
        """Until the next look: a day after the last one, at another time for everybody."""
        last_s = self._mark("asked")
        due_s = 0.0 if last_s is None else last_s + DAY_S - self._clock.wall_s()
        return max(FIRST_S, min(due_s, DAY_S)) + self._rng.uniform(0.0, 0.1 * DAY_S)

    async def look(self) -> None:
        """Looks now, and says what is worth saying."""
        with contextlib.suppress(OSError):
            self._state.mkdir(mode=0o700, exist_ok=True)
        self._set_mark("asked")
        try:
            answer = await self._asks(self._state, self._trust)
            if answer.code:
                fields = msgspec.structs.asdict(answer)
                raise AgentError(answer.code, **{n: v for n, v in fields.items() if n != "code"})
        except AgentError as error:
            if error.code != "update_away" or self._is_long_away():
                self._announce("update_unclear", {"why": f"{error.what} {error.next_step}"})
            return
        except LookupError:
            return  # a code that this version does not know
        self._set_mark("answered")
        if answer.version and is_newer(answer.version, self._own):
            fields = {"version": answer.version, "own": self._own, "page": answer.page}
            self._announce("update_there", fields)

    def _is_long_away(self) -> bool:
        answered_s = self._mark("answered")
        if answered_s is None:
            self._set_mark("answered")  # counted from the first time
            return False
        return self._clock.wall_s() - answered_s > PATIENCE_DAYS * DAY_S

    def _mark(self, name: str) -> float | None:
        try:
            return (self._state / name).stat().st_mtime
        except OSError:
            return None

    def _set_mark(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._state / name).touch()
            now_s = self._clock.wall_s()
            os.utime(self._state / name, (now_s, now_s))
