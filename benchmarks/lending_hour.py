"""An hour of a desktop in two minutes: does each cause give the card back, and does nothing else?

Owns: those figures. Real probes on a real X server and bus see keys, games, a full screen, a
battery and a metered network, and what happens on desktops all the time and is no reason
(`tests/helpers/hour.py`); what they tell is recorded as `doctor --record` does, stretched by 30,
and the rules decide it. From an act to the ruling that stops the card; the engine's own end is in
`lending_stop` and `lending_game`.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from app.policy.recording import replay
from benchmarks.record import Row, not_run, row
from tests.helpers.hour import false_stops, given_back_s, record
from tests.helpers.situations import choices

BAR_MS = 1000.0
STOPS = "an hour of a desktop: stops that nothing explains"
BACK = "an hour of a desktop: from a cause to the ruling that stops the card"
GRAPHICS_CARD = 1


def measure() -> list[Row]:
    missing = [name for name in ("Xvfb", "dbus-daemon") if shutil.which(name) is None]
    if missing:
        why = f"{', '.join(missing)} not here"
        return [not_run(STOPS, "", "<= 0", why), not_run(BACK, "ms", f"<= {BAR_MS:g} ms", why)]
    with tempfile.TemporaryDirectory(prefix="lending-") as name:
        recording = record(Path(name) / "hour.jsonl")
    decisions = replay(recording, choices())
    given = [(what, 1000 * seconds) for what, seconds in
             given_back_s(recording, decisions, GRAPHICS_CARD)]  # fmt: skip
    times_ms = sorted(milliseconds for _, milliseconds in given)
    slowest = max(given, key=lambda each: each[1])[0]
    note = f"slowest of {len(given)} ({slowest}); median {times_ms[len(times_ms) // 2]:.0f} ms"
    count = len(false_stops(recording, decisions, GRAPHICS_CARD))
    acts = sum(act.what == "noise" for act in recording.acts)
    return [
        row(STOPS, count, "", bar=0, better="lower", note=f"{acts} groups of harmless events"),
        row(BACK, round(times_ms[-1], 1), "ms", bar=BAR_MS, better="lower", note=note),
    ]
