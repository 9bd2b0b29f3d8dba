"""The agent's settings: declared once, read from a TOML file, changed by the owner by revision.

Owns: the table `AGENT` and, with the policy's, `SETTINGS`; the reading of the file, and the values
that hold. Must not: act on a value. What the owner changes while the agent runs is kept beside the
other state and wins over the file, save where the file names a coordinator.
"""

from __future__ import annotations

import grp
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.policy.choices import Choices
from app.policy.settings import POLICY, PRICES
from gpugoblin import settings as declared
from gpugoblin.errors import AgentError
from gpugoblin.settings import Setting, declare
from gpugoblin.units import GIB, MIB

__all__ = [
    "AGENT",
    "JOINING",
    "LIVE",
    "SETTINGS",
    "Settings",
    "Value",
    "control_group",
    "read_settings",
    "settings_path",
]

Value = bool | int | float | str | tuple[str, ...]

_REQUEST: Final = "the request"
_FINGERPRINT: Final = re.compile(r"([0-9A-Fa-f]{2}:?){32}")


def _fingerprint_fault(text: str) -> str:
    is_one = not text or _FINGERPRINT.fullmatch(text)
    return "" if is_one else "it must have 64 hexadecimal digits"


AGENT: Final = declare(
    Setting(
        "state_directory",
        "path",
        "",
        "",
        "Where the agent keeps its key, its journal and its cache (mode 0700). Empty: "
        "/var/lib/gpugoblin/agent for root, else ~/.local/state/gpugoblin/agent.",
    ),
    Setting(
        "control_directory",
        "path",
        "",
        "",
        "Where the control socket lies (mode 0700). Empty: gpugoblin in the user's run-time "
        "directory, else `control` in the state directory.",
    ),
    Setting(
        "control_group",
        "text",
        "",
        "",
        "A group of this system whose members may tell the agent what to do, while everybody may "
        "look; for agents of the system, with a `control_directory` that others can reach, as "
        "/run/gpugoblin. Empty: only the agent's own user and root.",
    ),
    Setting(
        "coordinator.address",
        "text",
        "",
        "",
        "https://host:port of the coordinator. Where the file names none, the owner may name one "
        "while the agent runs, until the device is enrolled; nothing is lent before.",
    ),
    Setting(
        "coordinator.certificate_sha256",
        "text",
        "",
        "",
        "Fingerprint of the coordinator's certificate (64 hexadecimal digits). Empty: the "
        "certificate authorities of this system decide.",
        fault=_fingerprint_fault,
    ),
    Setting("processor.lend", "bool", True, "", "Lend the processor."),
    Setting(
        "processor.threads",
        "int",
        0,
        "threads",
        "Worker threads of the processor's engine. 0: as many as this process may use.",
        minimum=0,
    ),
    Setting(
        "processor.memory_bytes",
        "int",
        GIB,
        "bytes",
        "Private memory that one task may take in the engine.",
        minimum=64 * MIB,
    ),
    Setting(
        "processor.input_bytes",
        "int",
        GIB,
        "bytes",
        "Shared memory for the inputs of the queued tasks. Taken only when used.",
        minimum=MIB,
    ),
    Setting(
        "processor.output_bytes",
        "int",
        512 * MIB,
        "bytes",
        "Shared memory for the outputs of the queued tasks. Taken only when used.",
        minimum=MIB,
    ),
    Setting(
        "processor.share",
        "bool",
        False,
        "",
        "Let several agents of this machine lend the processor at once, each with its threads.",
    ),
    Setting(
        "cards.software",
        "bool",
        False,
        "",
        "Lend also what only looks like a card: a driver that computes on the processor. For "
        "tests; lending the processor itself is many times faster.",
    ),
    Setting(
        "sandbox.level",
        "text",
        "full",
        "",
        "The least sandbox under which to lend. `reduced` has no namespaces: the owner's choice.",
        choices=("full", "reduced"),
    ),
    Setting(
        "cache.limit_bytes",
        "int",
        4 * GIB,
        "bytes",
        "The most disk space that the encrypted cache takes.",
        minimum=16 * MIB,
    ),
    Setting(
        "cache.least_free_bytes",
        "int",
        2 * GIB,
        "bytes",
        "Disk space that always stays free.",
        minimum=0,
    ),
    Setting(
        "results.limit_bytes",
        "int",
        GIB,
        "bytes",
        "Memory for results that wait to be sent; over it no new work is taken.",
        minimum=MIB,
        is_live=True,
    ),
    Setting(
        "queue.prefetch",
        "int",
        2,
        "tasks",
        "Tasks whose inputs are fetched while the engine computes others.",
        minimum=0,
        is_live=True,
    ),
    Setting(
        "updates.look",
        "bool",
        True,
        "",
        "Ask once a day whether there is a newer version, and say so. Nothing is installed by "
        "itself.",
        is_live=True,
    ),
)

SETTINGS: Final = declare(*AGENT, *POLICY, *PRICES)

LIVE: Final = tuple(setting.name for setting in SETTINGS if setting.is_live)
"""Names of the settings that may change while the agent runs."""

JOINING: Final = ("coordinator.address", "coordinator.certificate_sha256")
"""Names of those that the owner may change as long as the file names no coordinator."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold: all names of `SETTINGS`, checked.

    `is_pinned`: the file names the coordinator, so that nobody else does.
    """

    values: Mapping[str, Value]
    is_pinned: bool = False

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self._plain(name))

    def fraction(self, name: str) -> float:
        return float(self._plain(name))

    def _plain(self, name: str) -> bool | int | float | str:
        value = self.values[name]
        if isinstance(value, tuple):
            raise TypeError(f"{name} is a list")
        return value

    def choices(self) -> Choices:
        """What the rules read."""
        return Choices({setting.name: self.values[setting.name] for setting in POLICY})

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    def path(self, name: str) -> Path | None:
        """None for an empty path."""
        text = self.text(name)
        return Path(text).expanduser() if text else None

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """With other values for live settings, and for `JOINING` where the file leaves it open.

        Raises:
            AgentError: `setting_fixed`.
            SettingsError: `setting_unknown`, `setting_invalid`.
        """
        values = dict(self.values)
        for name, value in changes.items():
            setting = declared.find(SETTINGS, name, _REQUEST)
            if not setting.is_live and (self.is_pinned or name not in JOINING):
                raise AgentError("setting_fixed", name=name)
            values[name] = setting.check(value, _REQUEST)
        return replace(self, values=values)

    def followed(self, found: Settings, kept: Mapping[str, object], *, is_joined: bool) -> Settings:
        """With what the file says now, and what the owner changed.

        Args:
            found: the file's values.
            kept: the owner's.
            is_joined: the device is enrolled: its coordinator stays.

        Raises:
            AgentError, SettingsError: as `changed`.
        """
        names = LIVE if is_joined or not found.is_pinned else (*LIVE, *JOINING)
        values = {**self.values, **{name: found.values[name] for name in names}}
        is_pinned = self.is_pinned or (found.is_pinned and not is_joined)
        return Settings(values, is_pinned).with_owners(kept)

    def with_owners(self, kept: Mapping[str, object]) -> Settings:
        """With what the owner changed in earlier runs, as far as it still counts.

        Raises:
            AgentError, SettingsError: as `changed`.
        """
        ours = {name: value for name, value in kept.items()
                if not (self.is_pinned and name in JOINING)}  # fmt: skip
        return self.changed(ours)

    @property
    def state_directory(self) -> Path:
        chosen = self.path("state_directory")
        if chosen is not None:
            return chosen
        if os.geteuid() == 0:
            return Path("/var/lib/gpugoblin/agent")
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(base).expanduser() / "gpugoblin" / "agent"

    @property
    def control_directory(self) -> Path:
        chosen = self.path("control_directory")
        if chosen is not None:
            return chosen
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        if runtime and self.path("state_directory") is None:
            return Path(runtime) / "gpugoblin"
        return self.state_directory / "control"


def control_group(settings: Settings) -> int | None:
    """The id of the group that may tell this agent what to do; None for nobody.

    Raises:
        AgentError: `group_unknown`.
    """
    name = settings.text("control_group")
    if not name:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as cause:
        raise AgentError("group_unknown", name=name) from cause


def read_settings(path: Path | None) -> Settings:
    """The defaults, with what a TOML file says instead.

    Raises:
        SettingsError: `settings_unreadable`, `setting_unknown`, `setting_invalid`.
    """
    if path is None:
        values = declared.check({}, SETTINGS, "nobody")
    else:
        values = declared.read(path, SETTINGS)
    return Settings(values, is_pinned=bool(values["coordinator.address"]))


def settings_path(chosen: Path | None) -> Path | None:
    """The file that holds: the one that was named, else the one in its usual place, if any."""
    if chosen is not None:
        return chosen
    if os.geteuid() == 0:
        usual = Path("/etc/gpugoblin/agent.toml")
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        usual = Path(base).expanduser() / "gpugoblin" / "agent.toml"
    return usual if usual.exists() else None
