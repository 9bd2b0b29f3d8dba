"""The contributor's program on a machine on which something is not as it must be.

Owns: the wrongs. Run as a script: `python -I chaos_machine.py WRONG ARGUMENTS...`; the arguments
are those of `app.main`, or of `gpugoblin` where they begin with `agent`.

* `no-bubblewrap`: the program is not where it must be;
* `no-namespaces`: the system allows no further user namespace (needs root);
* `clock+SECONDS`: the clock is fast.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

__all__ = ["main"]

_CLONE_NEWUSER = 0x10000000
_ALL_IDS = "0 0 4294967295"


def _forbid_namespaces() -> None:
    """Enters a user namespace that is all of the machine's, and sets its limit to none."""
    told, tell = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{parent}/{name}").write_text(_ALL_IDS, encoding="ascii")
        os._exit(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot make a user namespace")
    os.write(tell, b"x")
    os.waitpid(child, 0)
    Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")


def _hide_bubblewrap() -> None:
    from app.sandbox import launch

    nowhere = launch.Walls(bwrap=Path("/usr/bin/bubblewrap-is-not-here"))
    launch.launch.__defaults__ = (nowhere,)


def _set_clock(ahead_s: float) -> None:
    real = time.time
    time.time = lambda: real() + ahead_s


def main(words: list[str]) -> int:
    """Makes the wrong, then runs the program."""
    wrong, *arguments = words
    if wrong == "no-namespaces":
        _forbid_namespaces()
    elif wrong == "no-bubblewrap":
        _hide_bubblewrap()
    else:
        _set_clock(float(wrong.removeprefix("clock")))
    if arguments[0] == "agent":
        from gpugoblin.cli import main as command

        return command(arguments)
    from app.main import main as program

    return program(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
