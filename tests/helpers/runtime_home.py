"""One directory for all runtimes of a test run, readable by the engine's own user.

Owns: that. Runtimes in one home share their unchanged files, so only the first costs a second.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

__all__ = ["runtime_home"]


@functools.cache
def runtime_home() -> Path:
    """Made on first use, removed when the test run ends."""
    home = Path(tempfile.mkdtemp(prefix="gg-runtimes-"))
    home.chmod(0o755)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
