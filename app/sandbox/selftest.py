"""An engine that only builds its walls, tells so, and waits for its end. The probe starts it.

Owns: that. Must not: receive anything; it reads its channel only to see it close.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Started by path and isolated, so nothing but the standard library is on the path yet.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Builds the walls, writes one JSON object to the channel, and reads until it closes."""
    from app.sandbox.inside import enter_first, enter_last
    from gpugoblin.errors import SandboxError

    channel = int(arguments[0])
    try:
        abi = enter_first()
        report: dict[str, object] = {**enter_last(), "landlock_abi": abi}
    except SandboxError as error:
        report = {"code": error.code, "fields": {k: str(v) for k, v in error.fields.items()}}
    os.write(channel, json.dumps(report).encode())
    while os.read(channel, 1):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
