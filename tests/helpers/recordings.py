"""Recordings for the fake agent, made with the real policy from invented days of machines.

`python -m tests.helpers.recordings` writes them into `tests/golden/recordings`; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from app.agent.registry import setting_items
from app.agent.settings import SETTINGS
from app.agent.view import reason_items
from app.control import words
from app.control.fake_agent import Recording, Scene, Step
from app.control.items import (
    AgentItem,
    CardItem,
    GrantItem,
    Item,
    LogLine,
    NoticeItem,
    ProbeItem,
    SensorItem,
    TotalsItem,
)
from app.control.messages import Finding, HistoryRow
from app.policy.choices import Choices
from app.policy.combine import CardRuling
from app.policy.intent import Intent
from app.policy.machine import PolicyMachine
from app.policy.rule import Ruling
from app.policy.rules import RULES
from app.policy.settings import POLICY
from app.policy.snapshot import (
    CardFacts,
    ForeignUse,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Sensor,
    Snapshot,
)
from gpugoblin.units import GIB

DIRECTORY = Path(__file__).parents[1] / "golden" / "recordings"
BEGIN_S = 1_767_268_800.0  # 2026-01-01 12:00 UTC
DOING = {Ruling.RUN: "computing", Ruling.THROTTLE: "computing"}


def gpu(number: int, name: str = "card") -> CardFacts:
    """A healthy card of 12 GiB; every second one has a twin of the same name."""
    return CardFacts(
        number, "vulkan", f"0000:{number + 1:02x}:00.0",
        sensors=(Sensor(f"{name} core", "core", 51.0), Sensor(f"{name} memory", "memory", 60.0)),
        fan_rpm=900, memory_bytes=12 * GIB, memory_used_bytes=GIB // 2, power_w=24.0,
    )  # fmt: skip


CPU = CardFacts(0, "cpu", "cpu", sensors=(Sensor("package", "processor", 48.0),))
IDLE = IdleFacts(BEGIN_S - 20.0, "Wayland idle notifier", is_active=True)
PLAY, POWER, NETWORK = PlayFacts(), PowerFacts(), NetworkFacts("no", "wired")
LOAD = LoadFacts(4.0, 20 * GIB, 200 * GIB)


@dataclass
class Day:
    """A machine that is recorded. `now_s` moves with `wait`."""

    cards: tuple[CardFacts, ...]
    values: dict[str, Any] = field(default_factory=dict)
    idle: IdleFacts | None = IDLE
    play: PlayFacts | None = PLAY
    power: PowerFacts | None = POWER
    load: LoadFacts | None = LOAD
    network: NetworkFacts | None = NETWORK
    whys: dict[str, str] = field(default_factory=dict)
    state: str = "working"
    now_s: float = BEGIN_S
    intents: dict[int, Intent] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    notices: list[NoticeItem] = field(default_factory=list)
    user_code: str = ""
    _shown: dict[str, Item] = field(default_factory=dict)
    _policy: PolicyMachine = field(default_factory=PolicyMachine)
    _waited_s: float = 0.0

    def wait(self, seconds: float, **changes: Any) -> None:
        """Lets time pass, then changes facts and shows what follows."""
        self.now_s += seconds
        self._waited_s += seconds
        for name, value in changes.items():
            setattr(self, name, value)
        for card in self.cards:
            ruling = self._policy.current.get(card.card)
            if ruling is not None and ruling.ruling <= Ruling.THROTTLE:
                self.done[card.card] = self.done.get(card.card, 0) + int(seconds // 2)
        self.show()

    def show(self) -> None:
        snapshot = Snapshot(
            self.now_s, self.cards, self.now_s, idle=self.idle, play=self.play, power=self.power,
            network=self.network, load=self.load, why_unknown=self.whys,
        )  # fmt: skip
        defaults = {setting.name: setting.default for setting in POLICY}
        # A step is a moment after the time for which a cause that has passed is waited for.
        calm = {"calm.after_s": 0, "heat.resume_after_s": 0}
        choices = Choices({**defaults, **calm, **self.values})  # type: ignore[dict-item]
        for ruling in self._policy.rule(snapshot, RULES, self.intents, choices):
            code = {"RUN": "card_lends", "THROTTLE": "card_throttles", "FREEZE": "card_freezes",
                    "STOP": "card_stops"}[ruling.ruling.name]  # fmt: skip
            fields: dict[str, str | int | float] = {
                "card": ruling.card, "because": words.reasons(reason_items(ruling)), "until": "",
            }  # fmt: skip
            self.notices.append(NoticeItem(f"notice-{len(self.notices)}", self.now_s, code, fields))
        items = {item.key: item for item in self._items()}
        changed = tuple(item for key, item in items.items() if self._shown.get(key) != item)
        removed = tuple(key for key in self._shown if key not in items)
        self.steps.append(Step(self._waited_s, changed, removed))
        self._shown, self._waited_s = items, 0.0

    def _items(self) -> Iterator[Item]:
        profile = str(self.values.get("profile", "away"))
        yield AgentItem(
            "agent", "agent-0.2.0", 4711, BEGIN_S - 3600.0, "https://coordinator.example.org:8440",
            self.state, self.user_code, "62cc-9bdb-b19a-ec91", self.now_s + 300.0, profile,
        )  # type: ignore[arg-type]  # fmt: skip
        yield from self._probes()
        for card in self.cards:
            yield self._card(card, self._policy.current[card.card])
        for card in self.cards:
            if self._policy.current[card.card].ruling <= Ruling.THROTTLE:
                yield GrantItem(
                    f"grant_{card.card}", "lab_tides", card.card, BEGIN_S + 3600.0,
                    "Tides and Currents", "How the water of the North Sea mixes in a warm winter.",
                )  # fmt: skip
        yield from self.notices[-20:]
        done = sum(self.done.values())
        yield TotalsItem(
            "totals", done, 2, 3_000_000 * done, 400_000 * done, 80 * 2**20, 3_400_000 * done,
            round(0.05 * done, 2),
        )  # fmt: skip

    def _probes(self) -> Iterator[ProbeItem]:
        sources = {
            "idle": "Wayland idle notifier, terminals", "play": "GameMode, processes",
            "power": "UPower", "network": "NetworkManager", "load": "kernel", "cards": "hwmon",
        }  # fmt: skip
        for name, source in sources.items():
            line = self.whys.get(name, "")
            yield ProbeItem(f"probe-{name}", name, "unknown" if line else "well", source, line)

    def _card(self, card: CardFacts, ruling: CardRuling) -> CardItem:
        lends = ruling.ruling <= Ruling.THROTTLE and self.state == "working"
        refused = self.refused.get(card.card) if lends else None
        doing = "refused" if refused else "stopped"
        if lends and not refused:
            doing = "computing"
        return CardItem(
            key=f"card-{card.card}", card=card.card, kind=card.kind, ruling=ruling.ruling.name,
            reasons=reason_items(ruling), until_s=ruling.until_s, is_draining=ruling.is_draining,
            engine="ready" if doing == "computing" else "absent", doing=doing,
            sandbox_level="full" if doing == "computing" else "", queued=2 * (doing == "computing"),
            lab="lab_tides" if doing == "computing" else "", done=self.done.get(card.card, 0),
            failures=0, flops_per_s=1.2e13 if card.kind != "cpu" else 9e10,
            why=refused[0] if refused else "", fix=refused[1] if refused else "",
            identity=card.identity, name="Processor" if card.kind == "cpu" else "Example GPU 12 GB",
            duty_percent=ruling.duty_percent, fan_rpm=card.fan_rpm, power_w=card.power_w,
            sensors=tuple(
                SensorItem(each.label, each.temperature_c, 83.0 if each.part == "core" else 95.0)
                for each in card.sensors or ()
            ),
            memory_bytes=card.memory_bytes, memory_used_bytes=card.memory_used_bytes,
        )  # type: ignore[arg-type]  # fmt: skip

    def hot(self, card: int, core_c: float) -> tuple[CardFacts, ...]:
        """The cards, one of them with another temperature of its core."""
        return tuple(
            each if each.card != card
            else replace(each, sensors=(Sensor("card core", "core", core_c),))
            for each in self.cards
        )  # fmt: skip

    def recording(self) -> Recording:
        values: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS}
        lines = tuple(
            LogLine(each.at_s, each.code, words.line(each.code, each.fields))
            for each in self.notices
        )
        scene = Scene(
            BEGIN_S, setting_items(), {**values, **self.values}, tuple(history(self.cards)), lines,
            (
                Finding("coordinator", True, "https://coordinator.example.org:8440 answers."),
                Finding("disk", False, "1 GiB is free.", "Free disk space."),
            ),
        )  # fmt: skip
        return Recording(scene, tuple(self.steps))


def history(cards: Iterable[CardFacts]) -> Iterator[HistoryRow]:
    """Two weeks of evenings."""
    for day in range(14, 0, -1):
        for card in list(cards)[:3]:
            begin_s = BEGIN_S - day * 86_400 + 600.0 * card.card
            hours = 3 + (day * 7 + card.card) % 5
            energy_wh = 180.0 * hours
            yield HistoryRow(
                begin_s, begin_s + 3600.0 * hours, card.card, "lab_tides", 900 * hours,
                3300.0 * hours, energy_wh, "nvml" if card.kind != "cpu" else "rapl",
                round(energy_wh / 1000 * 0.3, 4), "EUR", 71.0, 10**9 * hours, 10**8 * hours,
            )  # fmt: skip


def desktop() -> Recording:
    """A desktop with a processor and a card: used, left, a game, heat, the owner's word."""
    day = Day((CPU, gpu(1)))
    day.show()
    day.wait(60, idle=IdleFacts(day.now_s + 55, "Wayland idle notifier"))
    day.wait(300)
    day.wait(120, cards=day.hot(1, 84.0))
    day.wait(90, cards=day.hot(1, 70.0))
    day.wait(61)
    day.wait(200, play=PlayFacts(games=("Tiny Racer (Steam)",)))
    day.wait(100, play=PlayFacts())
    day.wait(16)
    day.wait(60, idle=IdleFacts(day.now_s + 59, "Wayland idle notifier", is_active=True))
    day.wait(30, intents={1: Intent("pause", "i", day.now_s + 3600.0)})
    return day.recording()


def sixteen() -> Recording:
    """A server of sixteen cards, two by two alike: a colleague's job, an unplugged card."""
    day = Day(
        tuple(gpu(number) for number in range(16)),
        idle=IdleFacts(0.0, "terminals"),
        whys={},
    )
    day.show()
    used = (ForeignUse("python3", 8 * GIB, 97.0),)
    day.wait(30, cards=tuple(
        replace(card, foreign=used) if card.card in (3, 10) else card for card in day.cards
    ))  # fmt: skip
    day.wait(30, cards=tuple(
        replace(card, trouble="it was unplugged") if card.card == 12 else card for card in day.cards
    ))  # fmt: skip
    day.wait(30, cards=tuple(replace(card, foreign=()) for card in day.cards))
    day.wait(20)
    return day.recording()


def laptop() -> Recording:
    """A laptop: battery, a metered network, a film, nights only."""
    day = Day((CPU,), values={"profile": "custom", "hours.spans": ("daily 08:00-20:00",)},
              idle=IdleFacts(BEGIN_S - 4000.0, "Mutter"))  # fmt: skip
    day.show()
    day.wait(30, power=PowerFacts(on_battery=True, battery_percent=80.0))
    day.wait(30, power=PowerFacts(), network=NetworkFacts("guess_yes", "wireless"))
    day.wait(30, network=NetworkFacts("no", "wireless"))
    day.wait(20, idle=IdleFacts(BEGIN_S - 4000.0, "Mutter", awake_for="Video Player"))
    day.wait(30, idle=IdleFacts(BEGIN_S - 4000.0, "Mutter"))
    day.wait(8 * 3600 - 100.0)
    day.wait(400)
    return day.recording()


def troubles() -> Recording:
    """What may be wrong: not enrolled, nothing known about people, no sandbox, a lying sensor."""
    day = Day((CPU, gpu(1)), state="not_enrolled", user_code="ABCD-2345", idle=None,
              whys={"idle": "no source tells; the session has no idle notifier"})  # fmt: skip
    day.show()
    day.wait(20, state="working", user_code="")
    day.wait(20, idle=IdleFacts(BEGIN_S - 4000.0, "X11"), whys={},
             refused={0: ("bwrap_missing", "Install bubblewrap.")})  # fmt: skip
    day.wait(20, cards=day.hot(1, 255.0))
    day.wait(20, state="coordinator_away")
    return day.recording()


RECORDINGS = {"desktop": desktop, "sixteen": sixteen, "laptop": laptop, "troubles": troubles}


def text(recording: Recording) -> bytes:
    """A recording as the bytes of its file."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return b"".join(encoder.encode(each) + b"\n" for each in (recording.scene, *recording.steps))


if __name__ == "__main__":
    for name, make in RECORDINGS.items():
        made = make()
        (DIRECTORY / f"{name}.jsonl").write_bytes(text(made))
        shown: dict[str, Item] = {}
        for each in made.steps:
            shown |= {item.key: item for item in each.changed}
            for item in shown.values():
                if isinstance(item, CardItem) and item.card < 4:
                    print(name, words.why(item, BEGIN_S))
