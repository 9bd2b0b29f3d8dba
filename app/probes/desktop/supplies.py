"""UPower, power profiles and NetworkManager: what the kernel does not say about power and network.

Owns: the reading of their properties. Must not: change any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from app.policy.snapshot import Metered, NetworkFacts
from app.probes.desktop.bus import Bus, BusFault

__all__ = ["NETWORK_PATH", "POWER_PATHS", "DesktopPower", "read_network", "read_power"]

UPOWER: Final = ("org.freedesktop.UPower", "/org/freedesktop/UPower", "org.freedesktop.UPower")
PROFILES: Final = (
    (
        "org.freedesktop.UPower.PowerProfiles",
        "/org/freedesktop/UPower/PowerProfiles",
        "org.freedesktop.UPower.PowerProfiles",
    ),
    ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles"),
)
NETWORK: Final = (
    "org.freedesktop.NetworkManager",
    "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager",
)
POWER_PATHS: Final = (UPOWER[1], *(path for _, path, _ in PROFILES))
NETWORK_PATH: Final = NETWORK[1]

_METERED: Final[dict[int, Metered]] = {
    0: "untold",
    1: "yes",
    2: "no",
    3: "guess_yes",
    4: "guess_no",
}


@dataclass(frozen=True, slots=True)
class DesktopPower:
    """What UPower and the power profiles say; `sources` names those that answered."""

    on_battery: bool = False
    lid_closed: bool = False
    is_saving: bool = False
    sources: tuple[str, ...] = ()


async def read_power(bus: Bus) -> DesktopPower:
    """Both services, where they are. Raises BusFault for one that is there and does not answer."""
    upower = await _properties(bus, *UPOWER)
    sources = ["UPower"] if upower else []
    is_saving = False
    for service in PROFILES:
        profiles = await _properties(bus, *service)
        if profiles:
            sources.append("power profiles")
            is_saving = _text(profiles, "ActiveProfile") == "power-saver"
            break
    return DesktopPower(
        _flag(upower, "OnBattery") if upower else False,
        _flag(upower, "LidIsClosed") if upower else False,
        is_saving,
        tuple(sources),
    )


async def read_network(bus: Bus) -> NetworkFacts | None:
    """What NetworkManager says; None where it is not. Raises BusFault."""
    found = await _properties(bus, *NETWORK)
    if not found:
        return None
    number = found.get("Metered")
    if not isinstance(number, int) or number not in _METERED:
        raise BusFault("NetworkManager says nothing of metering that makes sense")
    kind = _text(found, "PrimaryConnectionType")
    if "wireless" in kind:
        return NetworkFacts(_METERED[number], "wireless")
    return NetworkFacts(_METERED[number], "wired" if "ethernet" in kind else "other")


async def _properties(bus: Bus, service: str, path: str, interface: str) -> dict[str, Any]:
    try:
        return await bus.properties(service, path, interface)
    except BusFault as fault:
        if fault.is_absent:
            return {}
        raise


def _flag(found: dict[str, Any], name: str) -> bool:
    value = found.get(name, False if name == "LidIsClosed" else None)
    if not isinstance(value, bool):
        raise BusFault(f"an answer in which {name} makes no sense")
    return value


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise BusFault(f"an answer in which {name} makes no sense")
    return value
