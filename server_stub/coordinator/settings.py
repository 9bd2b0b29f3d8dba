"""The coordinator's settings: declared once, read from one TOML file.

Owns: the table of settings (docs are made from it) and their reading. Must not: open a database,
a socket or a key.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from gpugoblin.errors import CoordinatorError

__all__ = ["SETTINGS", "Setting", "Settings", "load_settings", "settings_toml"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `minimum` and `maximum` bound numbers; `words` lists what a text may be."""

    name: str
    kind: str
    default: Any
    description: str
    unit: str = ""
    minimum: float = 0
    maximum: float = 1e12
    words: tuple[str, ...] = ()


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("state_dir", "text", "", "Directory of the database and the keys; required."),
    Setting("host", "text", "127.0.0.1", "Address to listen on."),
    Setting("port", "int", 8440, "Port to listen on; 0 takes a free one.", maximum=65535),
    Setting(
        "tls",
        "text",
        "self-made",
        "Certificate: made here, from files, or off (behind a proxy that ends TLS).",
        words=("self-made", "files", "off"),
    ),
    Setting("tls_certificate", "text", "", "PEM certificate chain, for tls = 'files'."),
    Setting("tls_key", "text", "", "PEM private key, for tls = 'files'."),
    Setting("hostnames", "texts", ("localhost", "127.0.0.1"), "Names in a self-made certificate."),
    Setting(
        "trusted_proxies",
        "texts",
        (),
        "Addresses whose last X-Forwarded-For entry is believed to be the sender's.",
    ),
    Setting("contact_s", "float", 300.0, "Time between two contacts of a device.", "s", 0.05, 3600),
    Setting(
        "waiting_contact_s",
        "float",
        60.0,
        "The same for a device whose cards wait for a grant.",
        "s",
        0.05,
        3600,
    ),
    Setting("contact_jitter", "float", 0.2, "Contacts vary by this share, either way.", "", 0, 0.9),
    Setting("grant_s", "int", 3600, "How long a grant lasts.", "s", 2, 3600),
    Setting("max_leases", "int", 4, "Leases that one card may hold at a lab.", "", 1, 64),
    Setting("max_cards_per_device", "int", 16, "Cards of a device that get grants.", "", 1, 64),
    Setting("demand_s", "float", 120.0, "How long a lab's stated demand counts.", "s", 0.1, 86400),
    Setting("poll_s", "float", 30.0, "Time between two polls of a lab node.", "s", 0.05, 3600),
    Setting(
        "sandbox_levels",
        "texts",
        ("full", "reduced"),
        "Sandbox levels of cards that get grants.",
        words=("full", "reduced", "none"),
    ),
    Setting("enrol_expires_s", "float", 600.0, "How long a code can be approved.", "s", 1, 86400),
    Setting("enrol_interval_s", "float", 5.0, "Time between two polls of a code.", "s", 0.05, 60),
    Setting("max_pending", "int", 10_000, "Codes that may wait at once.", "", 1),
    Setting("max_pending_per_network", "int", 100, "The same from one network.", "", 1),
    Setting("code_tries", "int", 5, "Wrong codes that an account may try at once.", "", 1, 1000),
    Setting(
        "code_try_s", "float", 600.0, "Time after which one more wrong code may be tried.", "s"
    ),
    Setting("requests_per_s", "float", 50.0, "Requests from one network.", "1/s", 0.01),
    Setting("requests_burst", "int", 500, "Requests from one network at once.", "", 1),
    Setting("key_requests_per_s", "float", 5.0, "Requests signed by one key.", "1/s", 0.01),
    Setting("key_requests_burst", "int", 100, "Requests signed by one key at once.", "", 1),
    Setting(
        "max_units_per_receipt", "float", 1e9, "Units that one receipt may name.", "units", 0, 1e12
    ),
    Setting(
        "max_units_per_lab_day", "float", 1e10, "Units that a lab may book a day.", "units", 0, 1e12
    ),
    Setting("body_s", "float", 10.0, "Time in which a request's body must arrive.", "s", 0.1, 600),
    Setting("max_connections", "int", 2000, "Connections served at once.", "", 1),
)

_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings with their values; field names, units and meanings as in `SETTINGS`."""

    state_dir: Path
    host: str
    port: int
    tls: str
    tls_certificate: str
    tls_key: str
    hostnames: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    contact_s: float
    waiting_contact_s: float
    contact_jitter: float
    grant_s: int
    max_leases: int
    max_cards_per_device: int
    demand_s: float
    poll_s: float
    sandbox_levels: tuple[str, ...]
    enrol_expires_s: float
    enrol_interval_s: float
    max_pending: int
    max_pending_per_network: int
    code_tries: int
    code_try_s: float
    requests_per_s: float
    requests_burst: int
    key_requests_per_s: float
    key_requests_burst: int
    max_units_per_receipt: float
    max_units_per_lab_day: float
    body_s: float
    max_connections: int

    @classmethod
    def of(cls, values: dict[str, object]) -> Settings:
        """Settings from a parsed file; defaults where it is silent.

        Raises:
            CoordinatorError: `coordinator_setting_unknown` or `coordinator_setting_wrong`.
        """
        for name in values:
            if name not in _BY_NAME:
                raise CoordinatorError("coordinator_setting_unknown", name=name)
        read: dict[str, Any] = {
            setting.name: _value(setting, values.get(setting.name, setting.default))
            for setting in SETTINGS
        }
        if not read["state_dir"]:
            raise _wrong("state_dir", "it must name a directory")
        if read["tls"] == "files" and not (read["tls_certificate"] and read["tls_key"]):
            raise _wrong("tls", "'files' needs tls_certificate and tls_key")
        read["state_dir"] = Path(read["state_dir"])
        return cls(**read)


def load_settings(path: Path) -> Settings:
    """Settings from a TOML file. Relative paths in it start at its own directory.

    Raises:
        CoordinatorError: `coordinator_config_unreadable`, or as `Settings.of`.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise CoordinatorError("coordinator_config_unreadable", path=path, reason=cause) from cause
    for name in ("state_dir", "tls_certificate", "tls_key"):
        if isinstance(values.get(name), str) and values[name]:
            values[name] = str(path.resolve().parent / values[name])
    return Settings.of(values)


def settings_toml(**chosen: object) -> str:
    """A configuration file: the chosen values, and every default as a comment."""
    lines = []
    for setting in SETTINGS:
        unit = f" ({setting.unit})" if setting.unit else ""
        lines.append(f"# {setting.description}{unit}")
        prefix = "" if setting.name in chosen else "# "
        value = chosen.get(setting.name, setting.default)
        lines.append(f"{prefix}{setting.name} = {_toml(value)}\n")
    return "\n".join(lines)


def _value(setting: Setting, value: object) -> object:
    if setting.kind == "text":
        if not isinstance(value, str):
            raise _wrong(setting.name, "it must be a text")
        if setting.words and value not in setting.words:
            raise _wrong(setting.name, f"it must be one of {', '.join(setting.words)}")
        return value
    if setting.kind == "texts":
        if not isinstance(value, (list, tuple)) or any(not isinstance(v, str) for v in value):
            raise _wrong(setting.name, "it must be a list of texts")
        if setting.words and set(value) - set(setting.words):
            raise _wrong(setting.name, f"its entries must be of {', '.join(setting.words)}")
        return tuple(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(setting.name, "it must be a number")
    if setting.kind == "int" and not isinstance(value, int):
        raise _wrong(setting.name, "it must be a whole number")
    if not setting.minimum <= value <= setting.maximum:
        raise _wrong(setting.name, f"it must lie in {setting.minimum:g} to {setting.maximum:g}")
    return float(value) if setting.kind == "float" else value


def _toml(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def _wrong(name: str, reason: str) -> CoordinatorError:
    return CoordinatorError("coordinator_setting_wrong", name=name, reason=reason)


if tuple(field.name for field in fields(Settings)) != tuple(_BY_NAME):
    raise LookupError("the fields of Settings and the table SETTINGS differ")
