"""The settings as the window holds them: declared, current, and on their way to the agent.

Owns: reading them, changing them with the revision that was seen (compare and swap), and undoing
the last changes. Must not: check a value; the agent does, and its refusal is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from PySide6.QtCore import QObject, Signal

from app.control.messages import (
    AgentItem,
    Answer,
    Item,
    NoticeItem,
    Refused,
    SettingItem,
    SettingsAre,
    SettingsDeclared,
    SettingsDescribe,
    SettingsGet,
    SettingsSet,
    Value,
)
from app.ui.link import Link

__all__ = ["Store"]

MAX_UNDO: Final = 50


class Store(QObject):
    """The agent's settings.

    Signals:
        described(): what settings there are is known.
        changed(): values are new; `values` holds them.
        refused(str): the agent took a change not; why, for people. The values are as before.
    """

    described = Signal()
    changed = Signal()
    refused = Signal(str)

    def __init__(self, link: Link, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.settings: dict[str, SettingItem] = {}
        self.values: dict[str, Value] = {}
        self._revision = 0
        self._file_read_at_s = 0.0
        self._link = link
        self._undo: list[dict[str, Value]] = []
        self._is_waiting = False
        self._queue: list[tuple[dict[str, Value], Callable[[], object]]] = []
        link.connected.connect(self.read)
        link.away.connect(self._forget)
        link.changed.connect(self._look)

    @property
    def can_undo(self) -> bool:
        return bool(self._undo)

    def set(self, values: Mapping[str, Value]) -> None:
        """Sends changes; `changed` or `refused` follows."""
        new = {name: value for name, value in values.items() if self.values.get(name) != value}
        if not new:
            return
        before = {name: self.values[name] for name in new if name in self.values}

        def kept() -> None:
            self._undo.append(before)
            del self._undo[:-MAX_UNDO]

        self._send(new, kept)

    def undo(self) -> None:
        """Takes the last change back."""
        if self._undo:
            before = self._undo[-1]
            self._send(before, lambda: self._undo.pop())

    def is_fixed(self, name: str) -> bool:
        """Whether the profile decides this setting, whatever its value says."""
        found = self.settings.get(name)
        return found is not None and self.values.get("profile") in found.fixed_by

    def _send(self, values: Mapping[str, Value], done: Callable[[], object]) -> None:
        """Sends a change, after the answer to the one before: only that says the next revision."""
        if self._is_waiting:
            self._queue.append((dict(values), done))
            del self._queue[:-MAX_UNDO]
            return
        request = SettingsSet(self._link.number(), self._revision, dict(values))

        def answered(answer: Answer) -> None:
            self._is_waiting = False
            if isinstance(answer, Refused):
                self.refused.emit(f"{answer.what} {answer.next_step}")
                self._read_values()
            elif isinstance(answer, SettingsAre):
                done()
                self._take(answer)
            if self._queue:
                self._send(*self._queue.pop(0))

        self._is_waiting = self._link.ask(request, answered)
        if not self._is_waiting:
            self.changed.emit()  # shows again what holds

    def _forget(self) -> None:
        """The agent went, and with it what it was asked."""
        self._is_waiting = False
        self._queue.clear()

    def read(self) -> None:
        """Asks for everything, unless there is no agent: then it is asked for when there is one."""
        self._link.ask(SettingsDescribe(self._link.number()), self._take)
        self._read_values()

    def _read_values(self) -> None:
        self._link.ask(SettingsGet(self._link.number()), self._take)

    def _look(self, items: Mapping[str, Item]) -> None:
        """Reads the values again when somebody else changed them: a command, an editor."""
        agent = items.get("agent")
        read = max(
            (item.at_s for item in items.values()
             if isinstance(item, NoticeItem) and item.code == "settings_read"),
            default=0.0,
        )  # fmt: skip
        is_newer = isinstance(agent, AgentItem) and agent.settings_revision > self._revision
        if is_newer or read > self._file_read_at_s:
            self._file_read_at_s = read
            self._read_values()

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, SettingsDeclared):
            self.settings = {one.name: one for one in answer.settings}
            self.described.emit()
        elif isinstance(answer, SettingsAre):
            self._revision = answer.revision
            self.values = dict(answer.values)
            self.changed.emit()
