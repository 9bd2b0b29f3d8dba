"""Figures in the text form of Prometheus."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from server_stub.exposition import CountingApp, Exposition, labelled

__all__: list[str] = []


def test_the_form_of_figures() -> None:
    made = Exposition("goblin")
    made.add("ready", "gauge", "Whether it can work.", 1)
    made.add("answers", "counter", "Answers.", labelled("status", {"5xx": 2, "2xx": 7}))
    assert made.text().splitlines() == [
        "# HELP goblin_ready Whether it can work.",
        "# TYPE goblin_ready gauge",
        "goblin_ready 1",
        "# HELP goblin_answers_total Answers.",
        "# TYPE goblin_answers_total counter",
        'goblin_answers_total{status="2xx"} 7',
        'goblin_answers_total{status="5xx"} 2',
    ]


def test_answers_are_counted_by_kind() -> None:
    counts: Counter[str] = Counter()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": scope["status"]})
        await send({"type": "http.response.body"})

    async def ask() -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message["type"])

        for status in (200, 204, 503):
            await CountingApp(app, counts)({"status": status}, None, send)  # type: ignore[arg-type]  # not asked
        assert len(sent) == 6

    asyncio.run(ask())
    assert counts == {"2xx": 2, "5xx": 1}
