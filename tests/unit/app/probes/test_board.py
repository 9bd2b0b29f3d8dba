"""Facts by their probe, and what is unknown."""

from __future__ import annotations

from datetime import UTC

from app.policy.snapshot import CardFacts, ForeignUse, PlayFacts, Sensor
from app.probes.board import FactBoard, Report

CPU, GPU = CardFacts(0, "cpu", "cpu"), CardFacts(7, "vulkan", "0000:01:00.0")


def board() -> tuple[FactBoard, list[int]]:
    changes: list[int] = []
    return FactBoard(lambda: changes.append(1), lambda: UTC), changes


def test_a_change_is_told_once() -> None:
    facts, changes = board()
    for _ in range(3):
        facts.tell(Report("play", "well", "x"), PlayFacts())
    assert len(changes) == 1
    facts.tell(Report("play", "unknown", "x", "it hangs"), None)
    snapshot = facts.snapshot(1.0, 2.0, [CPU])
    assert (len(changes), snapshot.play, snapshot.why_unknown["play"]) == (2, None, "it hangs")
    facts.sleep(True)
    facts.sleep(True)
    assert (len(changes), facts.snapshot(1.0, 2.0, []).is_asleep) == (3, True)


def test_cards_are_unknown_until_they_were_looked_at() -> None:
    facts, _ = board()
    cpu, gpu = facts.snapshot(1.0, 2.0, [CPU, GPU]).cards
    assert (cpu.sensors, gpu.sensors, gpu.foreign) == (None, None, None)
    reading = {
        "cpu": CardFacts(0, "cpu", sensors=(Sensor("p", "processor", 50.0),)),
        GPU.identity: CardFacts(0, "cuda", foreign=(ForeignUse("x", 1),)),
    }
    facts.tell(Report("cards", "well", "hwmon"), reading)
    cpu, gpu = facts.snapshot(1.0, 2.0, [CPU, GPU]).cards
    assert cpu.sensors == reading["cpu"].sensors
    assert (gpu.card, gpu.kind, gpu.foreign) == (7, "vulkan", (ForeignUse("x", 1),))
    facts.tell(Report("cards", "well", "hwmon"), {})
    cpu, gpu = facts.snapshot(1.0, 2.0, [CPU, GPU]).cards
    assert (cpu.sensors, gpu.sensors) == ((), None)


def test_a_software_card_is_as_warm_as_the_processor_and_has_users_of_its_own() -> None:
    facts, _ = board()
    software = CardFacts(3, "vulkan", "software-ab")
    reading = CardFacts(0, "cpu", sensors=(Sensor("p", "processor", 50.0),))
    facts.tell(Report("cards", "well", "hwmon"), {"cpu": reading})
    (card,) = facts.snapshot(1.0, 2.0, [software]).cards
    assert (card.card, card.kind, card.identity) == (3, "vulkan", "software-ab")
    assert (card.sensors, card.foreign) == (reading.sensors, ())


def test_it_is_whole_when_all_have_spoken() -> None:
    facts, _ = board()
    for name in ("idle", "play", "power", "network", "load"):
        facts.tell(Report(name, "unknown", "x", "no"), None)
    assert not facts.is_whole
    facts.tell(Report("cards", "unknown", "x", "no"), None)
    assert facts.is_whole
    assert facts.snapshot(1.0, 2.0, []).why_unknown["foreign"] == "no"
