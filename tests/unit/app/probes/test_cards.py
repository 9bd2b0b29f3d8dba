"""All cards in one look: sixteen of them with twins, unplugged at random, and nobody mixed up."""

from __future__ import annotations

import random
from pathlib import Path

from app.agent.locks import take_card
from app.policy.snapshot import ForeignUse
from app.probes.cards import CardProbe, lenders
from gpugoblin.units import GIB
from tests.helpers.fake_nvml import FakeCard, FakeNvml


def probe(library: FakeNvml, tmp_path: Path, held: list[str] | None = None) -> CardProbe:
    return CardProbe(lambda: [], lambda: held or [], load=lambda: library, hwmon=tmp_path / "h",
                     drm=tmp_path / "d")  # fmt: skip


def test_sixteen_cards_with_twins_that_come_and_go(tmp_path: Path) -> None:
    rng = random.Random(7)
    cards = [FakeCard(f"GPU-{n}", f"00000000:{n:02x}:00.0", celsius=40 + n) for n in range(16)]
    library = FakeNvml(list(cards))
    looking = probe(library, tmp_path)
    looking.look()
    for _ in range(50):
        library.cards = [card for card in cards if rng.random() < 0.7]
        busy = rng.choice(cards)
        for card in cards:
            card.compute = {4711: GIB} if card is busy else {}
        seen = looking.look()
        for number, card in enumerate(cards):
            facts = seen[card.uuid]
            assert facts == seen[f"0000:{number:02x}:00.0"]
            if card not in library.cards:
                assert facts.trouble == "its driver has lost it"
                continue
            assert facts.trouble == ""
            assert facts.sensors is not None
            assert facts.sensors[0].temperature_c == 40 + number
            assert bool(facts.foreign) == (card is busy)


def test_a_card_that_another_agent_lends_says_so_and_our_own_does_not(tmp_path: Path) -> None:
    library = FakeNvml([FakeCard("GPU-lock-test", "00000000:01:00.0")])
    lock = take_card("GPU-lock-test")
    try:
        assert "GPU-lock-test" in lenders()
        seen = probe(library, tmp_path).look()["GPU-lock-test"]
        assert seen.foreign == (ForeignUse("another agent of this machine", 0, is_lender=True),)
        own = probe(library, tmp_path, ["GPU-lock-test"]).look()["GPU-lock-test"]
        assert own.foreign == ()
    finally:
        lock.release()


def test_a_driver_that_is_loaded_later_is_asked_from_then_on(tmp_path: Path) -> None:
    loaded: list[FakeNvml] = []
    looking = CardProbe(lambda: [], lambda: [], load=lambda: loaded[0] if loaded else None,
                        hwmon=tmp_path / "h", drm=tmp_path / "d")  # fmt: skip
    assert set(looking.look()) == {"cpu"}
    loaded.append(FakeNvml([FakeCard("GPU-late", "00000000:01:00.0")]))
    for _ in range(2):
        facts = looking.look()["GPU-late"]
        assert facts.sensors
        assert facts.foreign == ()
    assert loaded[0].opened == 1


def test_a_machine_without_cards(tmp_path: Path) -> None:
    seen = CardProbe(lambda: [], lambda: [], hwmon=tmp_path / "h", drm=tmp_path / "d").look()
    assert set(seen) == {"cpu"}
