"""What the policy looks at: facts of one moment, gathered by probes.

Owns: the data. Must not: gather anything. An unknown fact is None, never a guess; a fact that does
not apply here (no battery, no desktop) is a value that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from types import MappingProxyType
from typing import Literal

__all__ = [
    "CardFacts",
    "CardKind",
    "ForeignUse",
    "IdleFacts",
    "LoadFacts",
    "NetworkFacts",
    "PlayFacts",
    "PowerFacts",
    "Sensor",
    "Snapshot",
]

CardKind = Literal["cpu", "vulkan", "cuda"]
Metered = Literal["no", "yes", "guess_no", "guess_yes", "untold"]


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature. `part`: what it belongs to, which decides the limit that holds for it."""

    label: str
    part: Literal["core", "memory", "processor", "disk"]
    temperature_c: float


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """A process that is not ours and uses a card. `is_lender`: another agent's engine.

    Args:
        busy_percent: of the card's time; None where the driver does not tell.
    """

    program: str
    memory_bytes: int
    busy_percent: float | None = None
    is_lender: bool = False


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card. A FREEZE keeps memory, so it is lasting only where `kind` is `cpu`.

    Args:
        identity: UUID or PCI address; `cpu` for the processor.
        trouble: why the card cannot be used at all (unplugged, driver lost); empty when it can.
        sensors: of this card; empty where it has none, None where they could not be read.
        fan_rpm: the fastest fan; None where there is none.
        foreign: who else uses it; None where that could not be found out.
        memory_used_bytes: by others; None where the card has no memory of its own or does not tell.
        power_w: what it draws; None where it does not tell.
        limit_w: the most that its driver lets it draw; None where that is not told.
        default_w: the same as its maker set it; None where that is not told.
    """

    card: int
    kind: CardKind
    identity: str = ""
    trouble: str = ""
    sensors: tuple[Sensor, ...] | None = ()
    fan_rpm: int | None = None
    foreign: tuple[ForeignUse, ...] | None = ()
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    limit_w: float | None = None
    default_w: float | None = None


@dataclass(frozen=True, slots=True)
class IdleFacts:
    """Whether a person uses the machine, over all seats, terminals and remote sessions.

    Args:
        last_input_s: Unix seconds of the latest input; 0.0 when there never was any.
        source: what told the latest one, for people.
        is_active: input comes right now, as far as the source tells (its pushes have a grain).
        awake_for: the program that keeps the screen awake (a film, a talk); empty for none.
        locked_since_s: every desktop has been locked since then (Unix seconds).
    """

    last_input_s: float
    source: str
    is_active: bool = False
    awake_for: str = ""
    locked_since_s: float | None = None


@dataclass(frozen=True, slots=True)
class PlayFacts:
    """What plays: games by name, the program that fills the screen, and running programs asked for.

    Args:
        listed: those of the owner's own list that run.
    """

    games: tuple[str, ...] = ()
    full_screen: str = ""
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """Where the power comes from. `saver`: the owner chose to save power (a power profile)."""

    on_battery: bool = False
    battery_percent: float | None = None
    on_ups: bool = False
    is_saving: bool = False
    lid_closed: bool = False


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """The way out. `metered`: as NetworkManager guesses; `untold` where nothing here can know."""

    metered: Metered = "untold"
    kind: Literal["wired", "wireless", "other", "untold"] = "untold"
    day_bytes: int = 0
    month_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """What others use of this machine. Percent of all processors together."""

    processor_percent: float
    memory_free_bytes: int
    disk_free_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The machine at `now_s` (Unix seconds).

    Args:
        monotonic_s: the clock for durations; the wall clock may jump.
        zone: of the owner's timetable.
        is_asleep: the machine is about to sleep or does.
        why_unknown: for a fact that is None, by its field's name: what its probe says, for people.
    """

    now_s: float
    cards: tuple[CardFacts, ...]
    monotonic_s: float = 0.0
    zone: tzinfo = UTC
    idle: IdleFacts | None = None
    play: PlayFacts | None = None
    power: PowerFacts | None = None
    network: NetworkFacts | None = None
    load: LoadFacts | None = None
    is_asleep: bool = False
    why_unknown: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
