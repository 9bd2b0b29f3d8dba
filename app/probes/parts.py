"""What is known so far, part by part, and the facts that follow.

Owns: putting the tellings of several sources together into one fact for each rule. Must not: ask a
source, or know how it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from app.policy.snapshot import NetworkFacts, PlayFacts, PowerFacts
from app.probes.board import Health, Report, Tell
from app.probes.desktop.logind import Seen
from app.probes.desktop.supplies import DesktopPower
from app.probes.idle.merge import Desktop, merge
from app.probes.idle.sessions import Sessions, SessionTold
from app.probes.idle.source import Input, SourceName

__all__ = ["Parts"]


@dataclass(slots=True)
class Parts:
    """Used in the loop's thread; every `put_...` tells the fact that follows.

    Args:
        traffic: bytes sent and received today and this month.
    """

    tell: Tell
    traffic: Callable[[], tuple[int, int]]
    inputs: dict[SourceName, Input] = field(default_factory=dict)
    faults: dict[SourceName, str] = field(default_factory=dict)
    desktop: Desktop = field(default_factory=Desktop)
    sessions: Sessions = field(default_factory=Sessions)
    _others_fault: str = ""
    _silent: tuple[int, ...] = ()
    _scan: PlayFacts | None = None
    _scan_fault: str = ""
    _gamemode: tuple[str, ...] = ()
    _gamemode_fault: str = ""
    _full_screen: str = ""
    _supplies: PowerFacts | None = None
    _supplies_fault: str = ""
    _desktop_power: DesktopPower = field(default_factory=DesktopPower)
    _desktop_power_fault: str = ""
    _network: NetworkFacts | None = None
    _network_fault: str = ""
    _awake_for: str = ""

    # -- idle --------------------------------------------------------------------------------

    def put_input(self, name: SourceName, told: Input | None, fault: str = "") -> None:
        """What a source of idleness says; None when it cannot, and why."""
        if told is None:
            self.inputs.pop(name, None)
            if fault:
                self.faults[name] = fault
            else:
                self.faults.pop(name, None)
        else:
            self.inputs[name] = told
            self.faults.pop(name, None)
        self.tell_idle()

    def put_desktop(self, seen: Seen) -> None:
        """What logind says of sessions."""
        self.desktop = seen.desktop
        self._others_fault, self._silent = seen.fault, seen.silent
        for name, told in (("logind", seen.own_hint), ("remote", seen.others)):
            if told is None:
                self.inputs.pop(name, None)  # type: ignore[call-overload]
            else:
                self.inputs[name] = told  # type: ignore[index]
        self.tell_idle()

    def put_no_sessions(self, has_display: bool) -> None:
        """There is no logind: the environment says whether a desktop runs here."""
        self.desktop, self._others_fault = Desktop(is_there=has_display), ""
        self._silent = ()
        self.tell_idle()

    def put_sessions_fault(self, why: str) -> None:
        """logind is there and does not answer."""
        self.desktop, self._others_fault = Desktop(), why
        self._silent = ()
        self.tell_idle()

    def put_session(self, connection: int, told: SessionTold | None) -> None:
        """What the helper of a session says; None when it has gone or is silent."""
        if told is None:
            self.sessions.words.pop(connection, None)
        else:
            self.sessions.words[connection] = told
        heard = self.sessions.input()
        if heard is None:
            self.inputs.pop("session", None)
        else:
            self.inputs["session"] = heard
        self.tell_idle()
        self._tell_play()

    def put_awake(self, program: str) -> None:
        """What the desktop's own list says keeps the screen awake."""
        self._awake_for = program
        self.tell_idle()

    def tell_idle(self) -> None:
        desktop = self.desktop
        if self._awake_for and not desktop.awake_for:
            desktop = replace(desktop, awake_for=self._awake_for)
        merged = merge(self.inputs, self.faults, desktop)
        line = self._others_line() or merged.line
        if line:
            self.tell(Report("idle", "unknown", merged.sources, line), None)
        else:
            self.tell(Report("idle", "well", merged.sources), merged.facts)

    def _others_line(self) -> str:
        """Why another user's desktop is not known; empty when its helper speaks for it."""
        if not self._silent:
            return self._others_fault
        user = self.sessions.unseen(self._silent)
        if user is None:
            return ""
        why = self.sessions.why(user)
        return f"{self._others_fault}: {why}"[:900] if why else self._others_fault

    # -- games -------------------------------------------------------------------------------

    def put_scan(self, told: PlayFacts | None, fault: str) -> None:
        """What the processes say."""
        self._scan, self._scan_fault = told, fault
        self._tell_play()

    def put_gamemode(self, games: tuple[str, ...], fault: str = "") -> None:
        """What GameMode says."""
        self._gamemode, self._gamemode_fault = games, fault
        self._tell_play()

    def put_full_screen(self, program: str) -> None:
        """The program that fills the screen; empty for none."""
        self._full_screen = program
        self._tell_play()

    def _tell_play(self) -> None:
        fault = self._scan_fault or self._gamemode_fault or self.sessions.play_why()
        if fault:
            self.tell(Report("play", "unknown", "processes, GameMode", fault), None)
        elif self._scan is not None:
            # GameMode knows a game by its process; the scan knows the same one by its launcher.
            games = self._scan.games or self._gamemode or self.sessions.games()
            full_screen = self._full_screen or self.sessions.full_screen()
            facts = replace(self._scan, games=games, full_screen=full_screen)
            self.tell(Report("play", "well", "processes, GameMode"), facts)

    # -- power -------------------------------------------------------------------------------

    def put_supplies(self, told: PowerFacts | None, fault: str) -> None:
        """What the kernel says of supplies."""
        self._supplies, self._supplies_fault = told, fault
        self._tell_power()

    def put_desktop_power(self, told: DesktopPower, fault: str = "") -> None:
        """What UPower and the profiles say."""
        self._desktop_power, self._desktop_power_fault = told, fault
        self._tell_power()

    def _tell_power(self) -> None:
        more, fault = self._desktop_power, self._supplies_fault or self._desktop_power_fault
        source = ", ".join(("kernel", *more.sources))
        if fault:
            self.tell(Report("power", "unknown", source, fault), None)
        elif self._supplies is not None:
            facts = replace(
                self._supplies,
                on_battery=self._supplies.on_battery or more.on_battery,
                is_saving=more.is_saving,
                lid_closed=more.lid_closed,
            )
            self.tell(Report("power", "well", source), facts)

    # -- network -----------------------------------------------------------------------------

    def put_network(self, told: NetworkFacts | None, source: str, fault: str = "") -> None:
        """What is known of the way out."""
        self._network, self._network_fault = told, fault
        self.tell_network(source)

    def tell_network(self, source: str = "") -> None:
        """Tells it again: bytes were sent or received."""
        if self._network_fault or self._network is None:
            fault = self._network_fault or "it has not been looked at yet"
            self.tell(Report("network", "unknown", source, fault), None)
            return
        day_bytes, month_bytes = self.traffic()
        facts = replace(self._network, day_bytes=day_bytes, month_bytes=month_bytes)
        health: Health = "absent" if facts.metered == "untold" else "well"
        line = "nothing here tells whether the network is metered" if health == "absent" else ""
        self.tell(Report("network", health, source, line), facts)
