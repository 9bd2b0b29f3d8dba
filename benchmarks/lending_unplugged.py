"""Sixteen cards with twins, unplugged at random: how soon one that is back is lent again.

Owns: that figure, by stub engines and a probe that sees what the benchmark says, through the agent
as it is. From the moment at which the probe may see the card again to the ruling that lends it.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from app.agent import fleet
from app.control.client import ControlClient
from app.host.cards import Discovery
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from benchmarks.record import Row, row
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker
from tests.unit.app.agent.test_sixteen_cards import COUNT, Look, healthy, lending

ROUNDS = 100
BAR_S = 10.0
SEED = 16


class _SixteenCards(fleet.Fleet):
    def find(self, discovery: Discovery | None = None) -> None:
        for number in range(COUNT):
            self._add(number, "vulkan", f"GPU-{number}", None)


def measure() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="lending-") as name,
        patch("app.agent.agent.Fleet", _SixteenCards),
    ):
        scene = Scene(Path(name))
        try:
            times_s, disturbed = _rounds(scene)
        finally:
            scene.close()
    at = min(len(times_s) - 1, int(0.99 * len(times_s)))
    note = f"99th percentile of {len(times_s)}; rounds in which another card stopped: {disturbed}"
    return [
        row("a card of sixteen that was unplugged: back to lent", round(times_s[at], 3), "s",
            bar=BAR_S, better="lower", note=note),
    ]  # fmt: skip


def _rounds(scene: Scene) -> tuple[list[float], int]:
    cards = Look("cards", healthy())
    polled = (cards, Look("terminals", Input(5.0)), Look("play", PlayFacts()),
              Look("power", PowerFacts()), Look("load", LoadFacts(0.0, 2**40, 2**40)))  # fmt: skip
    times_s: list[float] = []
    disturbed: list[int] = []

    def adjust(machine: Machine) -> Machine:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
        return replace(machine, polled=polled, environment=lambda: environment)

    def script() -> None:
        directory = scene.state / "control"
        eventually(lambda: (directory / "control.sock").exists())
        rng = random.Random(SEED)
        everyone = set(range(COUNT))
        with ControlClient(directory) as control:
            eventually(lambda: lending(control) == everyone)
            for _ in range(ROUNDS):
                gone = set(rng.sample(range(COUNT), rng.randint(1, 4)))
                facts = healthy()
                for number in gone:
                    facts[f"GPU-{number}"] = CardFacts(0, "cuda", trouble="it was unplugged")
                cards.fact = facts
                eventually(lambda lost=gone: not lending(control) & lost)  # type: ignore[misc] # a default
                if lending(control) != everyone - gone:
                    disturbed.append(1)
                since_s = time.perf_counter()
                cards.fact = healthy()
                eventually(lambda: lending(control) == everyone)
                times_s.append(time.perf_counter() - since_s)

    path = scene.config
    path.write_text("calm.after_s = 0\n" + path.read_text())
    scene.fixed_config = path
    scene.lend(script, StubMaker(), adjust)
    return sorted(times_s), len(disturbed)
