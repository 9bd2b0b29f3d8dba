"""Writes the golden file of every message that has none: `python -m tests.golden.wire.make`.

Each file holds two lines, the deterministic JSON of a full and of a bare example. A file that is
there is left alone: released bytes do not change; a message that must change gets a new version.
Before a release, `--replace` writes all of them again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpugoblin.wire.codec import encode
from gpugoblin.wire.registry import MESSAGES, MessageType
from tests.helpers.messages import example

DIRECTORY = Path(__file__).resolve().parent


def golden_path(entry: MessageType) -> Path:
    """Where the golden file of a message lies."""
    return DIRECTORY / f"{entry.key}.json"


def golden_bytes(entry: MessageType) -> bytes:
    """What the golden file of a message must hold."""
    lines = [encode(example(entry.struct, bare=bare)) for bare in (False, True)]
    return b"\n".join(lines) + b"\n"


def main() -> int:
    replace = "--replace" in sys.argv[1:]
    for entry in MESSAGES.values():
        path = golden_path(entry)
        if replace or not path.exists():
            path.write_bytes(golden_bytes(entry))
    for path in DIRECTORY.glob("*.json"):
        if replace and path not in {golden_path(entry) for entry in MESSAGES.values()}:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
