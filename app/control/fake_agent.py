"""An agent that is none: it serves the control socket from a recording.

Owns: replaying snapshots and deltas, and believable answers to every request, so that a window can
be built, shown and tested without cards, labs or waiting. Must not: be used by the real agent.

A recording is a file of one JSON object a line. The first is a `Scene`: settings, history, log,
findings. The others are `Step`s, each with the items that changed and the wait before it.
`python -m app.control.fake_agent FILE --directory DIR [--speed 10] [--loop]` serves one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from app.control.board import follow
from app.control.items import AgentItem, CardItem, Item, LogLine, ReasonItem, Value
from app.control.messages import (
    Accepted,
    Answer,
    Delta,
    Doctor,
    EnrolBegin,
    EnrolIs,
    EnrolPoll,
    Finding,
    Finish,
    History,
    HistoryIs,
    HistoryRow,
    Logs,
    LogsAre,
    MachineItem,
    Machines,
    MachinesAre,
    Pause,
    Preview,
    PreviewIs,
    Quit,
    Report,
    Request,
    Resume,
    SelfTest,
    SelfTestIs,
    SessionReport,
    SettingItem,
    SettingsAre,
    SettingsDeclared,
    SettingsDescribe,
    SettingsGet,
    SettingsSet,
    SigninBegin,
    SigninCode,
    Stop,
    WouldItem,
)
from app.control.server import ControlServer
from gpugoblin.errors import AgentError

__all__ = ["FakeAgent", "Recording", "Scene", "Step", "load"]

MAX_RECORDING_BYTES: Final = 64 * 1024 * 1024
STOPPED: Final = {Pause: "owner_paused", Finish: "owner_finished", Stop: "owner_stopped"}


class Scene(Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent answers beside its items. `begin_s`: Unix seconds of the first step."""

    begin_s: float
    settings: tuple[SettingItem, ...] = ()
    values: dict[str, Value] = {}
    history: tuple[HistoryRow, ...] = ()
    lines: tuple[LogLine, ...] = ()
    findings: tuple[Finding, ...] = ()


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """Items that changed `after_s` the step before, and the keys of those that are gone."""

    after_s: float
    changed: tuple[Item, ...] = ()
    removed: tuple[str, ...] = ()


class Recording(Struct, frozen=True):
    """A scene and its steps."""

    scene: Scene
    steps: tuple[Step, ...]


def load(path: Path) -> Recording:
    """A recording from its file.

    Raises:
        AgentError: `recording_malformed`.
    """
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_RECORDING_BYTES).splitlines()
        if not lines:
            raise AgentError("recording_malformed", path=path, line=1, reason="it is empty")
        scene = msgspec.json.decode(lines[0], type=Scene)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise AgentError("recording_malformed", path=path, line=1, reason=cause) from cause
    steps = []
    for number, line in enumerate(lines[1:], 2):
        try:
            steps.append(msgspec.json.decode(line, type=Step))
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise AgentError("recording_malformed", path=path, line=number, reason=cause) from cause
    return Recording(scene, tuple(steps))


class FakeAgent:
    """Serves a recording from a directory of mode 0700.

    Args:
        speed: how many times faster than it was recorded.
        now_s: the wall clock; moments of the recording are moved so that it begins now.
        moves: False leaves the moments as they are, for tests.
    """

    def __init__(
        self,
        recording: Recording,
        directory: Path,
        speed: float = 1.0,
        now_s: Callable[[], float] = time.time,
        *,
        moves: bool = True,
    ) -> None:
        self.scene = recording.scene
        self.values: dict[str, Value] = dict(recording.scene.values)
        self.revision = 0
        self.items: dict[str, Item] = {}
        self.asked: list[Request] = []
        self.ended = asyncio.Event()
        self._steps = recording.steps
        self._speed = speed
        self._shift_s = now_s() - recording.scene.begin_s if moves else 0.0
        self._words: dict[int, ReasonItem] = {}
        self._server = ControlServer(directory, "agent-fake", self._answer)

    async def start(self) -> None:
        """Listens; nothing is shown before `play` or `step`."""
        await self._server.start()

    async def close(self) -> None:
        await self._server.close()

    async def play(self, *, loops: bool = False) -> None:
        """Shows the steps at their times; the last stays until somebody asks to end."""
        while True:
            for number, step in enumerate(self._steps):
                await asyncio.sleep(step.after_s / self._speed)
                self.step(number)
            if not loops:
                await self.ended.wait()
            if self.ended.is_set():
                return

    def step(self, number: int) -> None:
        """Shows one step at once."""
        step = self._steps[number]
        changed = tuple(_moved(item, self._shift_s) for item in step.changed)
        self.items = follow(self.items, Delta(0, changed, step.removed))
        self._show()

    def _show(self) -> None:
        self._server.show(tuple(self._told(item) for item in self.items.values()))

    def _told(self, item: Item) -> Item:
        """A card as the owner's word makes it, whatever the recording goes on to say."""
        if not isinstance(item, CardItem) or item.card not in self._words:
            return item
        return msgspec.structs.replace(
            item,
            ruling="STOP",
            engine="absent",
            doing="stopped",
            queued=0,
            is_draining=False,
            reasons=(self._words[item.card],),
            until_s=self._words[item.card].until_s,
        )

    # -- requests ----------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Answer:
        self.asked.append(request)
        match request:
            case Pause() | Finish() | Stop() | Resume():
                return self._take(request)
            case SettingsGet():
                return SettingsAre(request.request, self.revision, dict(self.values))
            case SettingsSet():
                return self._set(request)
            case SettingsDescribe():
                return SettingsDeclared(request.request, self.scene.settings)
            case EnrolBegin() | EnrolPoll():
                return msgspec.structs.replace(self._enrolment(), request=request.request)
            case SigninBegin():
                if self._enrolment().state == "enrolled":
                    raise AgentError("signin_not_now")
                return Accepted(request.request, "", True)
            case SigninCode():
                return self._sign_in(request)
            case Preview():
                return self._preview(request)
            case SelfTest():
                return self._self_test(request)
            case Machines():
                return self._machines(request.request)
            case History():
                return self._history(request)
            case Logs():
                return LogsAre(request.request, self.scene.lines[-request.lines :])
            case Doctor():
                return Report(request.request, self.scene.findings)
            case SessionReport():
                return Accepted(request.request, "", True)
            case Quit():
                self.ended.set()
                return Accepted(request.request, "", True)
        raise AgentError("control_malformed", reason=f"{type(request).__name__} comes once")

    def _take(self, request: Pause | Finish | Stop | Resume) -> Accepted:
        cards = [item.card for item in self.items.values() if isinstance(item, CardItem)]
        for card in request.cards or cards:
            if card not in cards:
                raise AgentError("card_unknown", card=card, known=cards)
            if isinstance(request, Resume):
                self._words.pop(card, None)
            else:
                until_s = None if isinstance(request, Stop) else request.until_s
                self._words[card] = ReasonItem(STOPPED[type(request)], {}, until_s)
        self._show()
        return Accepted(request.request, request.intent, True)

    def _enrolment(self) -> EnrolIs:
        agent = self.items.get("agent")
        if not isinstance(agent, AgentItem) or agent.state != "not_enrolled":
            return EnrolIs(0, "enrolled")
        until_s = agent.since_s + 7200.0
        return EnrolIs(0, "waiting", agent.user_code, agent.fingerprint, until_s)

    def _sign_in(self, request: SigninCode) -> Accepted:
        if sum(map(str.isdecimal, request.code)) != 8:
            raise AgentError("login_code_malformed", digits=8)
        agent = self.items.get("agent")
        if isinstance(agent, AgentItem):
            self.items["agent"] = msgspec.structs.replace(agent, state="working", user_code="")
        self._show()
        return Accepted(request.request, "", True)

    def _machines(self, request: int) -> MachinesAre:
        agent = self.items.get("agent")
        if not isinstance(agent, AgentItem) or agent.state == "not_enrolled":
            return MachinesAre(request, ())
        day_s = 86_400.0
        return MachinesAre(request, (
            MachineItem(agent.fingerprint, True, agent.since_s, agent.since_s, False, 2, 1834.5),
            MachineItem("90c1-44d7-0f2e-5ab8", False, max(0.0, agent.since_s - 90 * day_s),
                        max(0.0, agent.since_s - day_s), False, 0, 212.0),
        ))  # fmt: skip

    def _cards(self) -> list[CardItem]:
        return [item for item in self.items.values() if isinstance(item, CardItem)]

    def _preview(self, request: Preview) -> PreviewIs:
        """As the cards are now; with the profile `always` they lend slowly."""
        slow = ReasonItem("duty", {"percent": 30.0})
        is_always = request.values.get("profile") == "always"
        return PreviewIs(
            request.request,
            tuple(
                WouldItem(card.card, "THROTTLE", (slow,), None)
                if is_always
                else WouldItem(card.card, card.ruling, card.reasons, card.until_s)
                for card in self._cards()
            ),
        )

    def _self_test(self, request: SelfTest) -> SelfTestIs:
        for card in self._cards():
            if card.card == request.card:
                return SelfTestIs(
                    request.request, card.card, card.flops_per_s, 2e10, "full", is_fresh=True
                )
        raise AgentError("card_unknown", card=request.card, known=[c.card for c in self._cards()])

    def _set(self, request: SettingsSet) -> SettingsAre:
        if request.revision != self.revision:
            raise AgentError(
                "settings_changed_meanwhile", revision=self.revision, asked=request.revision
            )
        known = {setting.name for setting in self.scene.settings}
        for name in request.values:
            if name not in known:
                raise AgentError("setting_fixed", name=name)
        address, agent = request.values.get("coordinator.address"), self.items.get("agent")
        if address == "":
            raise AgentError("coordinator_missing")
        if isinstance(address, str) and isinstance(agent, AgentItem):
            self.items["agent"] = msgspec.structs.replace(agent, coordinator=address)
            self._show()
        self.values.update(request.values)
        self.revision += 1
        return SettingsAre(request.request, self.revision, dict(self.values))

    def _history(self, request: History) -> HistoryIs:
        rows = [
            msgspec.structs.replace(
                row, begin_s=row.begin_s + self._shift_s, end_s=row.end_s + self._shift_s
            )
            for row in self.scene.history
        ]
        found = [row for row in rows if request.since_s <= row.begin_s < request.until_s]
        return HistoryIs(request.request, tuple(found[: request.limit]),
                         len(found) <= request.limit)  # fmt: skip


def _moved(item: Item, shift_s: float) -> Item:
    """The item with all its moments moved: fields of Unix seconds end in `until_s` or `_at_s`."""
    if not shift_s:
        return item
    changes: dict[str, object] = {}
    for name in item.__struct_fields__:
        value = getattr(item, name)
        is_moment = name in ("until_s", "since_s", "next_contact_s") or name.endswith("at_s")
        if is_moment and value is not None:
            changes[name] = value + shift_s
    if isinstance(item, CardItem):
        changes["reasons"] = tuple(_moved_reason(reason, shift_s) for reason in item.reasons)
    moved: Item = msgspec.structs.replace(item, **changes)
    return moved


def _moved_reason(reason: ReasonItem, shift_s: float) -> ReasonItem:
    fields = {
        name: value + shift_s if name.endswith("_at_s") and isinstance(value, float) else value
        for name, value in reason.fields.items()
    }
    until_s = None if reason.until_s is None else reason.until_s + shift_s
    return ReasonItem(reason.code, fields, until_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves a recording until a program asks to end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--loop", action="store_true")
    options = parser.parse_args(arguments)
    options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def serve() -> None:
        agent = FakeAgent(load(options.recording), options.directory, options.speed)
        await agent.start()
        try:
            playing = asyncio.ensure_future(agent.play(loops=options.loop))
            ending = asyncio.ensure_future(agent.ended.wait())
            await asyncio.wait([playing, ending], return_when=asyncio.FIRST_COMPLETED)
            playing.cancel()
        finally:
            await agent.close()

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
