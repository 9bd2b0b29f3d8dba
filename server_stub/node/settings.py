"""The settings of a lab node: one declared table, read from a TOML file.

Owns: names, types, defaults, units and descriptions (the page in `docs/lab` is made from them) and
the checking of a file against them. Must not: act on a setting.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpugoblin.errors import NodeError
from gpugoblin.units import GIB, MIB

__all__ = ["SETTINGS", "NodeSettings", "Setting", "load", "parse", "template"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `unit` may be empty; a setting whose `default` is None must be given."""

    name: str
    type: type
    default: Any
    unit: str
    description: str
    least: float | None = None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("state_dir", str, None, "", "Directory of keys, database, blobs and results."),
    Setting("lab", str, "", "", "The lab's id as the coordinator knows it; empty: no volunteers."),
    Setting("socket", str, "", "", "Path of the Unix socket; empty: `node.sock` in `state_dir`."),
    Setting("listen_host", str, "127.0.0.1", "", "Address on which HTTPS is served."),
    Setting("listen_port", int, 0, "", "Port of HTTPS; 0: HTTPS is off.", 0),
    Setting("hostnames", str, "localhost 127.0.0.1", "", "Names in the self-made certificate."),
    Setting("tls_certificate", str, "", "", "PEM file of a certificate; empty: one is made."),
    Setting("tls_key", str, "", "", "PEM file of its key."),
    Setting("public_address", str, "", "", "Where devices reach it, `https://name:port`."),
    Setting("coordinator_address", str, "", "", "The coordinator; empty: no volunteers."),
    Setting("coordinator_certificate_sha256", str, "", "", "Its pinned certificate."),
    Setting(
        "coordinator_key", str, "", "",
        "The coordinator's ticket key, 64 hexadecimal digits; empty: learned at the first contact.",
    ),
    Setting(
        "confirmed_no_confidential_data", bool, False, "",
        "The lab confirms that no confidential, personal or medical data is sent to volunteers, who"
        " see the numbers they compute with. Until then jobs stay on the lab's own machines.",
    ),
    Setting("local_engine", bool, True, "", "Whether the node computes itself."),
    Setting("engine_threads", int, _cores(), "threads", "Threads of the local engine.", 1),
    Setting("engine_memory_bytes", int, 2 * GIB, "bytes", "Memory of one task.", 64 * MIB),
    Setting("slot_bytes", int, 256 * MIB, "bytes", "Largest single tensor of a task.", MIB),
    Setting("engine_level", str, "full", "", "Walls of the lab's engines: full, reduced or none."),
    Setting("check_workers", int, 1, "processes", "Processes that check and fold results.", 1),
    Setting("validators", int, 1, "processes", "Validator processes.", 1),
    Setting("grid_memory_bytes", int, GIB, "bytes", "Task memory while no device is known.", MIB),
    Setting("grid_slot_bytes", int, 64 * MIB, "bytes", "Largest tensor of a grid task.", MIB),
    Setting("window_tasks", int, 256, "tasks", "Tasks of a job that are prepared ahead.", 8),
    Setting("local_outstanding", int, 3, "tasks", "Tasks queued at the local engine.", 1),
    Setting("speculative_depth", int, 0, "tasks", "How far tasks run ahead of verdicts.", 0),
    Setting("reserve_bytes", int, 256 * MIB, "bytes", "Disk space that is always left free.", 0),
    Setting("max_upload_bytes", int, 1 << 40, "bytes", "Largest array that a client may send.", 1),
    Setting("max_output_bytes", int, 64 * MIB, "bytes", "Largest output sent as one container.", 1),
    Setting("device_hold_s", float, 10.0, "seconds", "How long an idle device's call is held.", 0),
    Setting("grid_startup_s", float, 30.0, "seconds", "Assumed start of a job on the grid.", 0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings by name, with the paths that follow from them."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError as cause:
            raise AttributeError(name) from cause

    @property
    def state(self) -> Path:
        return Path(self.values["state_dir"])

    @property
    def socket_path(self) -> Path:
        return Path(self.values["socket"] or self.state / "node.sock")

    @property
    def database(self) -> Path:
        return self.state / "node.sqlite"

    @property
    def blob_root(self) -> Path:
        return self.state / "blobs"

    @property
    def arrays_root(self) -> Path:
        """Uploaded inputs and results that are kept on the node."""
        return self.state / "arrays"


def parse(document: Mapping[str, Any]) -> NodeSettings:
    """Checks a decoded file.

    Raises:
        NodeError: `setting_unknown`, `setting_missing`, `setting_invalid`.
    """
    declared = {setting.name: setting for setting in SETTINGS}
    for name in document:
        if name not in declared:
            raise NodeError("setting_unknown", name=name)
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        value: Any = document.get(setting.name, setting.default)
        if value is None:
            raise NodeError("setting_missing", name=setting.name)
        if setting.type is float and type(value) is int:
            value = float(value)
        if type(value) is not setting.type:
            raise NodeError(
                "setting_invalid", name=setting.name, value=value,
                reason=f"it must be a {setting.type.__name__}",
            )  # fmt: skip
        if setting.least is not None and _below(value, setting.least):
            raise NodeError(
                "setting_invalid", name=setting.name, value=value,
                reason=f"at least {setting.least:g} is needed",
            )  # fmt: skip
        values[setting.name] = value
    if values["engine_level"] not in ("full", "reduced", "none"):
        raise NodeError(
            "setting_invalid", name="engine_level", value=values["engine_level"],
            reason="it must be full, reduced or none",
        )  # fmt: skip
    if not Path(values["state_dir"]).is_absolute():
        raise NodeError(
            "setting_invalid", name="state_dir", value=values["state_dir"],
            reason="it must be an absolute path",
        )  # fmt: skip
    return NodeSettings(values)


def _below(value: Any, least: float) -> bool:
    return bool(value < least)


def load(path: Path) -> NodeSettings:
    """Reads a configuration file.

    Raises:
        NodeError: `config_unreadable`, or as `parse`.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise NodeError("config_unreadable", path=path, reason=cause) from cause
    return parse(document)


def template(given: Mapping[str, Any]) -> str:
    """The text of a new configuration file: every setting with its description."""
    lines = ["# The lab node's settings. Changes take effect when the node is started again.", ""]
    for setting in SETTINGS:
        unit = f" ({setting.unit})" if setting.unit else ""
        lines.append(f"# {setting.description}{unit}")
        value = given.get(setting.name, setting.default)
        mark = "" if setting.name in given else "# "
        lines += [f"{mark}{setting.name} = {_toml(value)}", ""]
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = str(value or "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
