"""The coordinator's directory on disk: database, keys, certificate.

Owns: which file is where, and the making of a new directory. Must not: make a key that
should have been there: a coordinator with a new key would lock out every lab.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.keys import load_key, load_or_make_key
from gpugoblin.wire.tls import TlsFiles, certificate_sha256, make_self_signed
from server_stub.coordinator import databases
from server_stub.coordinator.house import House
from server_stub.coordinator.settings import Settings, load_settings, settings_toml

__all__ = ["Files", "initialize", "open_house", "tls_files"]


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one coordinator."""

    directory: Path

    @property
    def database(self) -> Path:
        return self.directory / "coordinator.sqlite3"

    @property
    def ticket_key(self) -> Path:
        return self.directory / "ticket.key"

    @property
    def pseudonym_key(self) -> Path:
        return self.directory / "pseudonym.key"


def initialize(config: Path, **chosen: object) -> Settings:
    """Writes a configuration and makes the directory that it names.

    Raises:
        CoordinatorError: `coordinator_exists`, `coordinator_config_unwritable`,
            `coordinator_dir_shared`.
        SettingsError: `setting_unknown`, `setting_invalid`.
    """
    if config.exists():
        raise CoordinatorError("coordinator_exists", path=config)
    chosen = {"state_dir": "state", **chosen}
    Settings.of(dict(chosen))
    text = settings_toml(**chosen)
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(text, encoding="utf-8")
    except OSError as cause:
        raise CoordinatorError(
            "coordinator_config_unwritable", path=config, reason=cause.strerror
        ) from cause
    settings = load_settings(config)
    files = Files(settings.state_dir)
    _need_own(settings.state_dir)
    databases.create(settings)
    load_or_make_key(files.ticket_key)
    load_or_make_key(files.pseudonym_key)
    return settings


def open_house(settings: Settings) -> House:
    """Settings and keys.

    Raises:
        CoordinatorError: `coordinator_not_set_up`, `coordinator_dir_shared`.
        WireError: `key_file_unreadable`.
    """
    files = Files(settings.state_dir)
    _need_own(settings.state_dir)
    databases.check_there(settings)
    # A pseudonym key has the form of a signing key: 32 random bytes.
    pseudonym_key = load_key(files.pseudonym_key).private_bytes_raw()
    return House(settings, load_key(files.ticket_key), pseudonym_key)


def _need_own(directory: Path) -> None:
    """A lab node on this machine keeps its data and its key elsewhere, out of our reach."""
    if (directory / "node.key").exists():
        raise CoordinatorError("coordinator_dir_shared", path=directory)


def tls_files(settings: Settings) -> TlsFiles | None:
    """Certificate and key to serve with; None when TLS is off.

    Raises:
        WireError: `certificate_unreadable`.
    """
    if settings.tls == "off":
        return None
    if settings.tls == "files":
        certificate = Path(settings.tls_certificate)
        return TlsFiles(certificate, Path(settings.tls_key), certificate_sha256(certificate))
    return make_self_signed(settings.state_dir, settings.hostnames)
