"""The agent's settings: declared once, read from a TOML file, changed by the owner by revision.

Owns: the table `SETTINGS`, the reading of the file, and the values that hold. Must not: act on a
value. What the owner changes while the agent runs is kept beside the other state and wins over the
file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gpugoblin.errors import AgentError
from gpugoblin.units import GIB, MIB

__all__ = ["SETTINGS", "Setting", "Settings", "Value", "read_settings"]

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Args:
        name: dotted; `a.b` is `b` in the TOML table `[a]`.
        kind: `choice` takes one of `choices`; `path` a leading `~`.
        unit: of a number, empty otherwise.
        is_live: the owner may change it while the agent runs.
    """

    name: str
    kind: Literal["str", "int", "bool", "path", "choice"]
    default: Value
    unit: str
    description: str
    minimum: int = 0
    choices: tuple[str, ...] = ()
    is_live: bool = False

    def check(self, value: object) -> Value:
        """`value` if it is one of this setting's. Raises AgentError `setting_invalid`."""
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise self._invalid(value, "it must be true or false")
            return value
        if self.kind == "int":
            if not isinstance(value, int) or isinstance(value, bool):
                raise self._invalid(value, "it must be a whole number")
            if value < self.minimum:
                raise self._invalid(value, f"it must be at least {self.minimum}")
            return value
        if not isinstance(value, str) or len(value) > 4096:
            raise self._invalid(str(value)[:40], "it must be a text of at most 4096 characters")
        if self.kind == "choice" and value not in self.choices:
            raise self._invalid(value, f"it must be one of {', '.join(self.choices)}")
        return value

    def _invalid(self, value: object, reason: str) -> AgentError:
        return AgentError("agent_setting_invalid", name=self.name, value=value, reason=reason)


SETTINGS: Final[tuple[Setting, ...]] = (
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
    Setting("coordinator.address", "str", "", "", "https://host:port of the coordinator."),
    Setting(
        "coordinator.certificate_sha256",
        "str",
        "",
        "",
        "Fingerprint of the coordinator's certificate (64 hexadecimal digits). Empty: the "
        "certificate authorities of this system decide.",
    ),
    Setting("processor.lend", "bool", True, "", "Lend the processor."),
    Setting(
        "processor.threads",
        "int",
        0,
        "threads",
        "Worker threads of the processor's engine. 0: as many as this process may use.",
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
        256 * MIB,
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
        "sandbox.level",
        "choice",
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
        is_live=True,
    ),
)

_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold: all names of `SETTINGS`, checked."""

    values: Mapping[str, Value]

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    def path(self, name: str) -> Path | None:
        """None for an empty path."""
        text = self.text(name)
        return Path(text).expanduser() if text else None

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """With other values for live settings.

        Raises:
            AgentError: `setting_unknown`, `setting_invalid`, `setting_fixed`.
        """
        values = dict(self.values)
        for name, value in changes.items():
            setting = _BY_NAME.get(name)
            if setting is None:
                raise AgentError("agent_setting_unknown", name=name, source="the request")
            if not setting.is_live:
                raise AgentError("setting_fixed", name=name)
            values[name] = setting.check(value)
        return Settings(values)

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


def read_settings(path: Path | None) -> Settings:
    """The defaults, with what a TOML file says instead.

    Raises:
        AgentError: `settings_unreadable`, `setting_unknown`, `setting_invalid`.
    """
    values: dict[str, Value] = {setting.name: setting.default for setting in SETTINGS}
    if path is not None:
        for name, value in _flat(_read_toml(path)).items():
            setting = _BY_NAME.get(name)
            if setting is None:
                raise AgentError("agent_setting_unknown", name=name, source=path)
            values[name] = setting.check(value)
    return Settings(values)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise AgentError("settings_unreadable", path=path, reason=cause) from cause


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
