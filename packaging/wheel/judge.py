"""Fails when a wheel for Linux needs more of the machine than its name will promise.

Owns: that judgement, for what we compiled ourselves: no other library than the C library's own,
none of its symbols newer than glibc 2.34, the code that should be there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NEWEST = (2, 34)
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0"}


def faults(listed: str) -> list[str]:
    """What is wrong with one library, from what `objdump -p` lists of it."""
    needed = set(re.findall(r"NEEDED\s+(\S+)", listed))
    found = [f"it needs {name}" for name in sorted(needed - ALLOWED)]
    for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", listed):
        if (int(major), int(minor)) > NEWEST:
            found.append(f"it needs glibc {major}.{minor}")
    return found


def judge(wheel: Path) -> list[str]:
    """What is wrong with a wheel; nothing when it keeps what it promises."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        if not libraries:
            return ["no loops are in it: is there a C compiler?"]
        found = []
        for name in libraries:
            path = archive.extract(name, folder)
            listed = subprocess.run(
                ["objdump", "-p", path], capture_output=True, text=True, check=True
            ).stdout
            found += [f"{name}: {fault}" for fault in faults(listed)]
        return found


if __name__ == "__main__":
    wrong = judge(Path(sys.argv[1]))
    print("\n".join(f"wheel: {one}" for one in wrong), file=sys.stderr, end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
