"""What the agent keeps on disk beside its journal: key, enrolment, the owner's intents, settings.

Owns: the state directory (0700, of this user) and its small files, each written whole or not at
all. Must not: hold anything of a computation.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from app.agent.settings import Settings, Value
from app.policy.intent import Intent
from gpugoblin.errors import AgentError
from gpugoblin.ids import DeviceId
from gpugoblin.wire.keys import load_or_make_key

__all__ = [
    "Enrolment",
    "OwnerSettings",
    "State",
    "enrolment_in",
    "own_directory",
    "owner_settings_in",
    "read_kept",
    "refuse_running",
    "refuse_unsafe",
    "shared_directory",
    "write_kept",
]

S = TypeVar("S", bound=Struct)

_MAX_FILE_BYTES: Final = 1024 * 1024
_PARTIAL: Final = re.compile(r"\.[a-z0-9.-]+\.[0-9a-f]{8}")
"""How `write_kept` names what is not whole yet."""


class Enrolment(Struct, frozen=True, forbid_unknown_fields=True):
    """That a coordinator knows this device. Another address or key means enrolling again."""

    coordinator: str
    device: DeviceId
    public_key: str


class OwnerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What the owner changed while the agent ran. `revision` counts the changes."""

    revision: int = 0
    values: dict[str, Value] = {}


class _Intents(Struct, frozen=True, forbid_unknown_fields=True):
    cards: dict[str, dict[str, Any]] = {}


def own_directory(path: Path) -> Path:
    """Makes a directory of mode 0700, or takes one that is this user's and closed to others.

    Raises:
        AgentError: `state_unsafe`.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise AgentError("state_unsafe", path=path, reason=cause.strerror) from cause
    refuse_unsafe(path)
    return path


def shared_directory(path: Path, is_shared: bool) -> Path:
    """As `own_directory`; others may look into it where it is shared, and change nothing.

    Raises:
        AgentError: `state_unsafe`.
    """
    if is_shared:
        with contextlib.suppress(OSError):  # not there yet, or not ours, which is told below
            path.chmod(0o700)
    own_directory(path)
    if is_shared:
        path.chmod(0o755)
    return path


def refuse_unsafe(path: Path) -> None:
    """Looks at a directory that is there, and changes nothing.

    Raises:
        AgentError: `state_unsafe`.
    """
    try:
        facts = path.lstat()
    except OSError as cause:
        raise AgentError("state_unsafe", path=path, reason=cause.strerror) from cause
    if not stat.S_ISDIR(facts.st_mode):
        raise AgentError("state_unsafe", path=path, reason="it is not a directory")
    if facts.st_uid != os.geteuid():
        raise AgentError("state_unsafe", path=path, reason="it belongs to another user")
    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AgentError("state_unsafe", path=path, reason="others may enter it (chmod 700)")


class State:
    """The state directory of one agent, held by a lock so that there is one agent a directory.

    Raises:
        AgentError: `state_unsafe`, `agent_running`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = own_directory(directory)
        self.settings_revision = 0
        self._lock = _lock(directory / "agent.lock")
        _sweep(directory)

    def close(self) -> None:
        """Lets the next agent in."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def journal_path(self) -> Path:
        return self.directory / "journal.db"

    @property
    def cache_directory(self) -> Path:
        return self.directory / "cache"

    def device_key(self) -> Ed25519PrivateKey:
        """The device's key; made at the first call, mode 0600. Raises WireError."""
        return load_or_make_key(self.directory / "device.key")

    def enrolment(self, coordinator: str, public_key: bytes) -> Enrolment | None:
        """The enrolment with this coordinator under this key; None when there is none."""
        return enrolment_in(self.directory, coordinator, public_key)

    def keep_enrolment(self, enrolment: Enrolment) -> None:
        self._write("enrolment.json", enrolment)

    def intents(self) -> dict[int, Intent]:
        """The owner's last word for each card.

        Raises:
            AgentError: `state_damaged`.
        """
        found = self._read("intents.json", _Intents) or _Intents()
        try:
            return {
                int(card): msgspec.convert(fields, Intent) for card, fields in found.cards.items()
            }
        except (msgspec.ValidationError, ValueError) as cause:
            raise AgentError(
                "state_damaged", path=self.directory / "intents.json", reason=cause
            ) from cause

    def keep_intents(self, intents: dict[int, Intent]) -> None:
        cards = {str(card): msgspec.to_builtins(intent) for card, intent in intents.items()}
        self._write("intents.json", _Intents(cards))

    def owner_settings(self) -> OwnerSettings:
        """What the owner changed. Raises AgentError `state_damaged`."""
        found = owner_settings_in(self.directory)
        self.settings_revision = found.revision
        return found

    def change_settings(
        self, settings: Settings, revision: int, changes: dict[str, Value]
    ) -> tuple[Settings, OwnerSettings]:
        """Compare and swap: nothing is changed unless `revision` is the current one.

        Raises:
            AgentError: `settings_changed_meanwhile`, `setting_fixed`.
            SettingsError: `setting_unknown`, `setting_invalid`.
        """
        kept = self.owner_settings()
        if kept.revision != revision:
            raise AgentError("settings_changed_meanwhile", revision=kept.revision, asked=revision)
        changed = settings.changed(changes)
        kept = OwnerSettings(kept.revision + 1, {**kept.values, **changes})
        self._write("settings.json", kept)
        self.settings_revision = kept.revision
        return changed, kept

    def _read(self, name: str, kind: type[S]) -> S | None:
        return read_kept(self.directory / name, kind)

    def _write(self, name: str, value: Struct) -> None:
        write_kept(self.directory / name, value)


def enrolment_in(directory: Path, coordinator: str, public_key: bytes) -> Enrolment | None:
    """As `State.enrolment`, of a directory that nobody holds."""
    found = read_kept(directory / "enrolment.json", Enrolment)
    if found is None or found.coordinator != coordinator:
        return None
    return found if found.public_key == public_key.hex() else None


def owner_settings_in(directory: Path) -> OwnerSettings:
    """As `State.owner_settings`, of a directory that nobody holds."""
    return read_kept(directory / "settings.json", OwnerSettings) or OwnerSettings()


def refuse_running(directory: Path) -> None:
    """Looks whether an agent holds a directory, and changes nothing.

    Raises:
        AgentError: `agent_running`.
    """
    try:
        descriptor = os.open(directory / "agent.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _flock(descriptor, directory, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def write_kept(path: Path, value: Struct | bytes) -> None:
    """Writes a small file of the state directory whole or not at all, mode 0600; blocks.

    Raises:
        AgentError: `state_unwritable`.
    """
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as cause:
        partial.unlink(missing_ok=True)
        raise AgentError("state_unwritable", path=path, reason=cause.strerror) from cause


def _sweep(directory: Path) -> None:
    """Removes what `write_kept` was killed over; for whoever holds the directory's lock."""
    for path in directory.glob(".*"):
        if _PARTIAL.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            with contextlib.suppress(OSError):  # it is in nobody's way
                path.unlink()


def read_kept(path: Path, kind: type[S]) -> S | None:
    """A small file of the state directory; None where there is none.

    Raises:
        AgentError: `state_damaged`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise AgentError("state_damaged", path=path, reason=cause.strerror) from cause
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise AgentError("state_damaged", path=path, reason=cause) from cause


def _flock(descriptor: int, directory: Path, kind: int) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError as cause:
        pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        raise AgentError("agent_running", path=directory, pid=pid or "unknown") from cause


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _flock(descriptor, path.parent, fcntl.LOCK_EX)
    except AgentError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor
