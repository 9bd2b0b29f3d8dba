"""Figures of a server in the text form of Prometheus, and the counting of its answers.

Owns: the form. Must not: know a figure of either server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["FORM", "CountingApp", "Exposition", "labelled"]

FORM: Final = "text/plain; version=0.0.4; charset=utf-8"


class CountingApp:
    """Counts the answers of an application by the first digit of their status."""

    def __init__(self, app: ASGIApp, counts: Counter[str]) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[f"{message['status'] // 100}xx"] += 1
            await send(message)

        await self._app(scope, receive, counted)


def labelled(label: str, values: Mapping[str, float]) -> dict[str, float]:
    """Values by one label, whose values are words of ours: nothing in them is escaped."""
    return {f'{{{label}="{word}"}}': value for word, value in sorted(values.items())}


class Exposition:
    """The text in the making. `prefix` begins every name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lines: list[str] = []

    def add(self, name: str, kind: str, meaning: str, values: Mapping[str, float] | float) -> None:
        """One figure; `values` by label. A counter's name gets its ending."""
        full = f"{self._prefix}_{name}_total" if kind == "counter" else f"{self._prefix}_{name}"
        self._lines.append(f"# HELP {full} {meaning}")
        self._lines.append(f"# TYPE {full} {kind}")
        given = values if isinstance(values, Mapping) else {"": values}
        self._lines.extend(f"{full}{label} {value!r}" for label, value in given.items())

    def text(self) -> str:
        """All figures so far."""
        return "\n".join(self._lines) + "\n"
