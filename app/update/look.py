"""The look itself, a program of its own: `python -I -m app.update.look STATE TRUST`.

Owns: the whole of it: python-tuf's client with its metadata in STATE, and the one line of JSON that
it prints: an announcement, or a code of why there is none. It is a process of its own so that what
it loads and what it fetches is gone afterward, and so that it can be ended.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tuf.api.exceptions import (
    DownloadError,
    ExpiredMetadataError,
    RepositoryError,
)
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.updater import Updater

from app.update.announcement import MAX_BYTES, TARGET, Announcement, decode
from app.update.fetch import Fetcher
from app.update.trust import Trust, read_trust
from gpugoblin.errors import AgentError

__all__ = ["look", "main"]

LIMIT_S: Final = 45.0
MEMORY_BYTES: Final = 1024 * 1024 * 1024
_BOUNDS: Final = UpdaterConfig(
    max_root_rotations=64,
    max_delegations=4,
    root_max_length=64 * 1024,
    timestamp_max_length=16 * 1024,
    snapshot_max_length=64 * 1024,
    targets_max_length=256 * 1024,
)


def look(state: Path, trust: Trust, limit_s: float = LIMIT_S) -> Announcement:
    """Asks the repository that `trust` names; remembers in `state` what it has seen.

    Raises:
        AgentError: `update_away` (nothing could be fetched), `update_stale` (its signatures have
            expired: somebody may hold newer ones back), `update_refused` (what it says is not
            signed as it must be, is older than what was seen, or does not fit together).
    """
    for folder in (state, state / "targets"):
        folder.mkdir(mode=0o700, exist_ok=True)
    fetcher = Fetcher(limit_s)
    try:
        updater = Updater(
            str(state),
            f"{trust.address}/metadata/",
            str(state / "targets"),
            f"{trust.address}/targets/",
            fetcher,
            _BOUNDS,
            bootstrap=trust.root,
        )
        updater.refresh()
        return _announced(updater)
    except ExpiredMetadataError as cause:
        raise AgentError("update_stale", address=trust.address, reason=str(cause)) from cause
    except (RepositoryError, ValueError) as cause:
        raise AgentError("update_refused", address=trust.address, reason=str(cause)) from cause
    except (DownloadError, OSError) as cause:
        raise AgentError("update_away", address=trust.address, reason=str(cause)) from cause
    finally:
        fetcher.close()


def _announced(updater: Updater) -> Announcement:
    target = updater.get_targetinfo(TARGET)
    if target is None:
        raise ValueError(f"it has no {TARGET}")
    if target.length > MAX_BYTES:
        raise ValueError(f"{TARGET} is longer than {MAX_BYTES} bytes")
    path = updater.find_cached_target(target) or updater.download_target(target)
    return decode(Path(path).read_bytes())


def main(words: Sequence[str]) -> int:
    """Prints one line of JSON, always: the parent reads nothing else."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    state, folder = map(Path, words)
    said: dict[str, str]
    try:
        trust = read_trust(folder)
        if trust is None:
            said = {}
        else:
            found = look(state, trust)
            said = {"version": found.version, "page": found.page}
    except AgentError as error:
        said = {"code": error.code, **{name: str(v)[:300] for name, v in error.fields.items()}}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
