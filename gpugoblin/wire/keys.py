"""Ed25519 key files: a private key that is made once and never leaves its machine.

Owns: how a key lies on disk (64 hexadecimal digits and a newline, mode 0600, written whole or not
at all). Must not: know what a key is for.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import WireError

__all__ = ["load_key", "load_or_make_key", "make_key", "write_private"]


def make_key() -> Ed25519PrivateKey:
    """A new private key from the system's random numbers."""
    return Ed25519PrivateKey.generate()


def load_key(path: Path) -> Ed25519PrivateKey:
    """The key in a file.

    Raises:
        WireError: `key_file_unreadable`: missing, of another form, or readable by others.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as cause:
        raise WireError("key_file_unreadable", path=path, reason=cause) from cause
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and os.name == "posix":
        raise WireError(
            "key_file_unreadable", path=path, reason="others may read it (chmod 600 repairs that)"
        )
    digits = text.removesuffix("\n")
    if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise WireError("key_file_unreadable", path=path, reason="it does not hold a key")
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(digits))


def load_or_make_key(path: Path) -> Ed25519PrivateKey:
    """The key in a file; where there is none, a new one is made and is on disk when this returns.

    Two processes that start at once end with the same key.

    Raises:
        WireError: as `load_key`; also when the file cannot be written.
    """
    if not path.exists():
        try:
            write_private(path, (make_key().private_bytes_raw().hex() + "\n").encode("ascii"))
        except OSError as cause:
            raise WireError("key_file_unreadable", path=path, reason=cause) from cause
    return load_key(path)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file of mode 0600, synced, unless there is one already (then it is kept)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # A link, unlike a rename, never replaces what another process has just put there.
        if not path.exists():
            try:
                os.link(partial, path)
            except FileExistsError:
                return
        _sync_directory(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
