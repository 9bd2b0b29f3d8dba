"""The settings of a lab node: one declared table, read from a TOML file.

Owns: names, types, defaults, units and descriptions (the page in `docs/lab` is made from them) and
the checking of a file against them. Must not: act on a setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpugoblin import settings as declared
from gpugoblin.errors import SettingsError
from gpugoblin.settings import Setting, declare
from gpugoblin.units import GIB, MIB

__all__ = ["SETTINGS", "NodeSettings", "load", "parse", "template"]

_PORTS: Final = 65_535
EXECUTORS: Final = frozenset({"local", "grid", "ray"})
_HEADING: Final = "The lab node's settings. Changes take effect when the node is started again."

SETTINGS: Final = declare(
    Setting("state_dir", "path", None, "", "Directory of keys, database, blobs and results."),
    Setting(
        "lab", "text", "", "", "The lab's id as the coordinator knows it; empty: no volunteers."
    ),
    Setting(
        "socket", "path", "", "", "Path of the Unix socket; empty: `node.sock` in `state_dir`."
    ),
    Setting("listen_host", "text", "127.0.0.1", "", "Address on which HTTPS is served."),
    Setting("listen_port", "int", 0, "", "Port of HTTPS; 0: HTTPS is off.", 0, _PORTS),
    Setting("hostnames", "text", "localhost 127.0.0.1", "", "Names in the self-made certificate."),
    Setting("tls_certificate", "path", "", "", "PEM file of a certificate; empty: one is made."),
    Setting("tls_key", "path", "", "", "PEM file of its key."),
    Setting(
        "pages", "bool", True, "",
        "Whether HTTPS also serves the pages for researchers, who sign in with their token.",
    ),
    Setting(
        "socket_files", "bool", False, "",
        "Whether all who may open the socket may name files; else the node's user and root only.",
    ),
    Setting(
        "administrators", "text", "", "",
        "System users who see and may end everybody's jobs over the socket, by name; root may.",
    ),
    Setting("coordinator_address", "text", "", "", "The coordinator; empty: no volunteers."),
    Setting("coordinator_certificate_sha256", "text", "", "", "Its pinned certificate."),
    Setting(
        "coordinator_key", "text", "", "",
        "The coordinator's ticket key, 64 hexadecimal digits; empty: learned at the first contact.",
    ),
    Setting(
        "confirmed_no_confidential_data", "bool", False, "",
        "The lab confirms that no confidential, personal or medical data is sent to volunteers, who"
        " see the numbers they compute with. Until then jobs stay on the lab's own machines.",
    ),
    Setting("local_engine", "bool", True, "", "Whether the node computes itself."),
    Setting(
        "executor", "text", "local, grid", "",
        "Who may compute, any of `local` (the node itself), `grid` (volunteers) and `ray` (the"
        " lab's own Ray cluster), separated by commas.",
    ),
    Setting("ray_address", "text", "", "", "The head of the Ray cluster, `host:port`."),
    Setting(
        "ray_threads", "int", 0, "threads",
        "Threads of the engine on each Ray machine; 0: as many processors as Ray has there.", 0,
    ),
    Setting(
        "ray_resource", "text", "", "",
        "Only Ray machines with this custom resource are used; empty: all.",
    ),
    Setting(
        "ray_worker_dir", "text", "", "",
        "Directory on the Ray machines for blobs and the engine's runtime; empty: `gpugoblin/ray`"
        " in the user's cache directory there.",
    ),
    Setting(
        "ray_cache_bytes", "int", 8 * GIB, "bytes",
        "Blobs that a Ray machine keeps which does not see the node's disk.", 64 * MIB,
    ),
    Setting(
        "ray_bytes_per_s", "int", 10**9, "bytes/s",
        "Assumed rate toward one Ray machine, for estimates.", 1,
    ),
    Setting(
        "validators_on", "text", "node", "",
        "Where results are checked and recomputed: on the node alone, or on the machines of the"
        " Ray cluster, too, except that none checks its own.", choices=("node", "ray"),
    ),
    Setting(
        "engine_threads", "int", 0, "threads",
        "Threads of the local engine; 0: as many as this process may use.", 0,
    ),
    Setting("engine_memory_bytes", "int", 2 * GIB, "bytes", "Memory of one task.", 64 * MIB),
    Setting("slot_bytes", "int", 256 * MIB, "bytes", "Largest single tensor of a task.", MIB),
    Setting(
        "engine_level", "text", "full", "", "Walls of the lab's engines.",
        choices=("full", "reduced", "none"),
    ),
    Setting(
        "check_workers", "int", 1, "processes", "Processes that check and fold results.", 1
    ),
    Setting("validators", "int", 1, "processes", "Validator processes.", 1),
    Setting("grid_memory_bytes", "int", GIB, "bytes", "Task memory while no device is known.", MIB),
    Setting("grid_slot_bytes", "int", 256 * MIB, "bytes", "Largest tensor of a grid task.", MIB),
    Setting("window_tasks", "int", 256, "tasks", "Tasks of a job that are prepared ahead.", 8),
    Setting("local_outstanding", "int", 3, "tasks", "Tasks queued at the local engine.", 1),
    Setting("speculative_depth", "int", 0, "tasks", "How far tasks run ahead of verdicts.", 0),
    Setting(
        "cache_days", "float", 30.0, "days",
        "Days without a reader after which a result that was submitted as a cache goes; 0: none"
        " goes for its age.", 0,
    ),
    Setting(
        "cache_bytes", "int", 0, "bytes",
        "What such results may take together, the ones read last; 0: as much as there is room.", 0,
    ),
    Setting("reserve_bytes", "int", 256 * MIB, "bytes", "Disk space that is always left free.", 0),
    Setting(
        "max_upload_bytes", "int", 1 << 40, "bytes", "Largest array that a client may send.", 1
    ),
    Setting(
        "max_output_bytes", "int", 64 * MIB, "bytes", "Largest output sent as one container.", 1
    ),
    Setting(
        "max_connections", "int", 2000, "",
        "Connections at once, of which one network address may have a quarter.", 1,
    ),
    Setting(
        "idle_exit_s", "float", 0.0, "s",
        "The node ends when nobody asked it anything for this long and no job is unfinished; 0:"
        " never. Nodes that `gg.connect(\"local\")` starts have an hour.", 0,
    ),
    Setting(
        "stop_wait_s", "float", 20.0, "s",
        "After SIGTERM: how long tasks and results that are under way may take to end.", 0, 3600,
    ),
    Setting(
        "log_format", "text", "text", "", "Lines for people, or a JSON object a line.",
        choices=("text", "json"),
    ),
    Setting(
        "metrics_port", "int", 0, "",
        "Port of 127.0.0.1 on which health, readiness and figures are read without TLS and token;"
        " 0: off.", 0, _PORTS,
    ),
    Setting(
        "metrics_token", "text", "", "",
        "Whoever sends it may read the figures over HTTPS; empty: nobody may.",
    ),
    Setting("device_hold_s", "float", 10.0, "s", "How long an idle device's call is held.", 0),
    Setting("grid_startup_s", "float", 30.0, "s", "Assumed start of a job on the grid.", 0),
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
    def executors(self) -> frozenset[str]:
        """Who may compute."""
        return _words(self.values["executor"])

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
    """Checks settings that no file gives.

    Raises:
        SettingsError: `setting_unknown`, `setting_missing`, `setting_invalid`.
    """
    return _checked(declared.check(document, SETTINGS, "the request"), "the request")


def load(path: Path) -> NodeSettings:
    """Reads a configuration file. Relative paths in it start at its own directory.

    Raises:
        SettingsError: `settings_unreadable`, or as `parse`.
    """
    return _checked(declared.read(path, SETTINGS), str(path))


def template(given: Mapping[str, Any]) -> str:
    """The text of a new configuration file: every setting with its description.

    Raises:
        SettingsError: as `parse`.
    """
    return declared.template(SETTINGS, given, _HEADING)


def _checked(values: dict[str, Any], source: str) -> NodeSettings:
    if not Path(values["state_dir"]).is_absolute():
        raise SettingsError(
            "setting_invalid", name="state_dir", value=repr(values["state_dir"]), source=source,
            reason="it must be an absolute path",
        )  # fmt: skip
    if values["tls_certificate"] and not values["tls_key"]:
        raise SettingsError(
            "setting_invalid", name="tls_certificate", value=repr(values["tls_certificate"]),
            source=source, reason="it needs tls_key",
        )  # fmt: skip
    _check_executors(values, source)
    values["engine_threads"] = values["engine_threads"] or len(os.sched_getaffinity(0))
    return NodeSettings(values)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def _check_executors(values: dict[str, Any], source: str) -> None:
    named = _words(values["executor"])
    reason = ""
    if not named or named - EXECUTORS:
        reason = f"it must name some of {', '.join(sorted(EXECUTORS))}"
    elif "ray" in named and not values["ray_address"]:
        reason = "`ray` needs ray_address"
    if reason:
        raise SettingsError(
            "setting_invalid", name="executor", value=repr(values["executor"]), source=source,
            reason=reason,
        )  # fmt: skip
    if values["validators_on"] == "ray" and "ray" not in named:
        raise SettingsError(
            "setting_invalid", name="validators_on", value="'ray'", source=source,
            reason="executor does not name `ray`",
        )  # fmt: skip
    values["local_engine"] = values["local_engine"] and "local" in named
