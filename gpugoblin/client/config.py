"""The researcher's configuration: which lab node, and how to know it.

Owns: the table of settings, the file `client.toml`, the variables `GPUGOBLIN_*`, and the places on
disk. Must not: connect, or keep a token anywhere but in memory.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpugoblin.errors import ClientError
from gpugoblin.wire.transport import Endpoint

__all__ = ["SETTINGS", "ClientConfig", "Setting", "config_path", "default_state_dir", "load"]

MAX_CONFIG_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its key in the file, its environment variable, what it means."""

    key: str
    variable: str
    meaning: str


SETTINGS: Final = (
    Setting(
        "node",
        "GPUGOBLIN_NODE",
        'The lab node: "local" for this machine, "https://host:port", or "unix:/path". '
        "Nothing is assumed when it is missing.",
    ),
    Setting("token", "GPUGOBLIN_TOKEN", "Your token at the lab node."),
    Setting(
        "token_file",
        "GPUGOBLIN_TOKEN_FILE",
        "A file that holds the token, readable by you alone. Better than `token`.",
    ),
    Setting(
        "certificate_sha256",
        "GPUGOBLIN_CERTIFICATE_SHA256",
        "SHA-256 of the node's certificate, 64 hexadecimal digits; nothing else is trusted then.",
    ),
    Setting("ca_file", "GPUGOBLIN_CA_FILE", "A PEM file with the authorities to trust."),
    Setting(
        "node_key",
        "GPUGOBLIN_NODE_KEY",
        "The node's public key, 64 hexadecimal digits: certificates must be signed by it.",
    ),
    Setting(
        "state_dir",
        "GPUGOBLIN_STATE_DIR",
        "Where the lab node of this machine keeps jobs and results "
        "(default: $XDG_STATE_HOME/gpugoblin, or ~/.local/state/gpugoblin).",
    ),
    Setting(
        "local_memory_bytes",
        "GPUGOBLIN_LOCAL_MEMORY_BYTES",
        "Memory that one task may take on this machine, in bytes, at least 67108864 "
        '(default: 2147483648). For the node that connect("local") starts.',
    ),
    Setting(
        "local_idle_exit_s",
        "GPUGOBLIN_LOCAL_IDLE_EXIT_S",
        'The node that connect("local") starts ends when nobody asked it anything for this many '
        "seconds and no job is unfinished; 0: never (default: 3600). It is started again when it "
        "is needed.",
    ),
)

LEAST_MEMORY_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All settings, as read; an empty text means that a setting is not given."""

    node: str = ""
    token: str = field(default="", repr=False)
    certificate_sha256: str = ""
    ca_file: str = ""
    node_key: str = ""
    state_dir: str = ""
    local_memory_bytes: int = 0
    local_idle_exit_s: float = 3600.0

    def endpoint(self, address: str) -> Endpoint:
        """The endpoint of a node that is not on this machine.

        Raises:
            ClientError: `token_missing`, `address_malformed`, `token_over_plain_http`.
        """
        if not address.startswith("unix:") and not self.token:
            raise ClientError("token_missing", address=address, config=config_path())
        token = "" if address.startswith("unix:") else self.token
        return Endpoint(address, token, self.certificate_sha256, self.ca_file)


def config_path() -> Path:
    """`$GPUGOBLIN_CONFIG`, else `client.toml` in the user's configuration directory."""
    named = os.environ.get("GPUGOBLIN_CONFIG")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "gpugoblin" / "client.toml"


def default_state_dir() -> Path:
    """Where the lab node of this machine keeps its state."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "gpugoblin"


def load(path: Path | None = None) -> ClientConfig:
    """Reads file and environment; the environment wins.

    Raises:
        ClientError: `config_malformed` (unreadable, not TOML, an unknown key, a value that is not
            text), `secret_readable`.
    """
    path = path or config_path()
    values = _from_file(path)
    for setting in SETTINGS:
        if os.environ.get(setting.variable):
            values[setting.key] = os.environ[setting.variable]
    for key in ("certificate_sha256", "node_key"):
        values[key] = _hexadecimal(path, key, values.get(key, ""))
    token = values.get("token", "") or _token(path, values.get("token_file", ""))
    return ClientConfig(
        node=values.get("node", ""),
        token=token,
        certificate_sha256=values["certificate_sha256"],
        ca_file=os.path.expanduser(values.get("ca_file", "")),
        node_key=values["node_key"],
        state_dir=os.path.expanduser(values.get("state_dir", "")),
        local_memory_bytes=_whole(path, values, "local_memory_bytes", 0, LEAST_MEMORY_BYTES),
        local_idle_exit_s=float(_whole(path, values, "local_idle_exit_s", 3600, 0)),
    )


def _from_file(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as cause:
        raise _malformed(path, cause.strerror or str(cause)) from cause
    if len(data) > MAX_CONFIG_BYTES:
        raise _malformed(path, f"it is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        parsed = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise _malformed(path, str(cause)) from cause
    values = _checked(path, parsed)
    if values.get("token"):
        _require_private(path)
    return values


def _checked(path: Path, parsed: Mapping[str, object]) -> dict[str, str]:
    known = {setting.key for setting in SETTINGS}
    values: dict[str, str] = {}
    for key, value in parsed.items():
        if key not in known:
            raise _malformed(path, f"there is no setting {key!r}")
        if not isinstance(value, str):
            raise _malformed(path, f"{key} must be text in quotes")
        values[key] = value
    return values


def _whole(path: Path, values: Mapping[str, str], key: str, default: int, least: int) -> int:
    text = values.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
        raise _malformed(path, f"{key} must be a whole number in quotes, at least {least}")
    return int(text)


def _hexadecimal(path: Path, key: str, value: str) -> str:
    digits = value.replace(":", "").lower()
    if digits and (len(digits) != 64 or set(digits) - set("0123456789abcdef")):
        raise _malformed(path, f"{key} must be 64 hexadecimal digits")
    return digits


def _token(config: Path, name: str) -> str:
    if not name:
        return ""
    path = Path(name).expanduser()
    try:
        text = path.read_text(encoding="ascii")[:4096].strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise _malformed(config, f"token_file {path} cannot be read: {cause}") from cause
    _require_private(path)
    return text


def _require_private(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClientError("secret_readable", path=path)


def _malformed(path: Path, reason: str) -> ClientError:
    return ClientError("config_malformed", path=path, reason=reason)
