"""What the update check trusts: the root of a TUF repository, and where that repository is.

Owns: the two files that a package brings. Must not: fetch anything, or take either from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gpugoblin.errors import AgentError

__all__ = ["PACKAGE", "Trust", "read_trust", "shipped"]

PACKAGE: Final = Path("/usr/share/gpugoblin/update")

MAX_ROOT_BYTES: Final = 64 * 1024
MAX_SOURCE_BYTES: Final = 4096


class _Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`address`: the folder of the repository's metadata and targets, by https."""

    address: str


@dataclass(frozen=True, slots=True)
class Trust:
    """The root's bytes, as they were shipped, and the repository's address without a `/` at its
    end."""

    root: bytes
    address: str


def shipped(package: Path = PACKAGE, module: Path = Path(__file__)) -> Path:
    """The folder that this installation's package brought: the Debian package's, or the tarball's
    beside the `lib` that this module lies in."""
    parents = module.resolve().parents
    if len(parents) > 5 and parents[2].name == "site-packages":
        beside = parents[5] / "share" / "gpugoblin" / "update"
        if beside.is_dir():
            return beside
    return package


def read_trust(folder: Path) -> Trust | None:
    """The trust in a folder; None where there is none.

    Raises:
        AgentError: `update_trust_damaged`.
    """
    if not (folder / "root.json").exists():
        return None
    try:
        root = _bounded(folder / "root.json", MAX_ROOT_BYTES)
        source = _bounded(folder / "source.json", MAX_SOURCE_BYTES)
        address = msgspec.json.decode(source, type=_Source).address.rstrip("/")
        if not address.startswith(("https://", "http://127.0.0.1:")):
            raise ValueError("the address is not https")
    except (OSError, ValueError, msgspec.DecodeError) as cause:
        raise AgentError("update_trust_damaged", path=folder, reason=str(cause)) from cause
    return Trust(root, address)


def _bounded(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{path.name} is longer than {limit} bytes")
    return data
