"""Starts one long-lived process that belongs to nobody, and watches its first moments.

Run as `python -I -m gpugoblin.client.launcher LOG COMMAND...`. Owns: that start. It prints the
process id, then, when its standard input closes or the process ends, the exit status if there is
one. It ends then; the process stays.

The lab node must outlive the notebook that started it, so it is not a child of the notebook.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import NoReturn

__all__ = ["main"]

POLL_S = 0.05


def main(arguments: list[str]) -> NoReturn:
    """See the module."""
    log, *command = arguments
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    print(process.pid, flush=True)
    while process.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], POLL_S)
        if readable:
            break
    if process.returncode is not None:
        print(process.returncode, flush=True)
    sys.stdout.flush()
    os._exit(0)  # without the complaint of subprocess that a child is still running: it should be


if __name__ == "__main__":
    main(sys.argv[1:])
