"""How large the package is, and how soon a bare Debian that installs it has done a verified task.

Owns: those figures, in a Debian made by debootstrap, with coordinator and lab on the loopback.
Needs root, debootstrap and this machine's sources of Debian's packages. `GPUGOBLIN_DEB` and
`GPUGOBLIN_DEBIAN_ROOT` name what is made already.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.record import Row, row
from tests.helpers.debian_root import DebianRoot
from tests.helpers.installed import Installed, build
from tests.helpers.network import Network

SUITE = "bookworm"


def measure() -> list[Row]:
    base = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        (base / "built").mkdir()
        package = build(base / "built")
        installed = Installed(DebianRoot.make(base / "debian", SUITE), package, base / "logs")
        install_s = installed.install()
        with Network(base / "network", {}) as network:
            try:
                task_s = installed.first_task(network)
            finally:
                installed.end_agent()
        return [
            row(
                "package: size", package.stat().st_size / 1e6, "MB", bar=50, better="lower",
                note="the .deb for Python 3.11, 3.12 and 3.13, with Qt and NumPy",
            ),
            row(
                "package: from apt to the first verified task", install_s + task_s, "s", bar=180,
                better="lower",
                note=f"bare {SUITE}; {install_s:.0f} s of it apt with all that is recommended, the "
                "rest enrolling, the first engine and one product",
            ),
        ]  # fmt: skip
    finally:
        shutil.rmtree(base, ignore_errors=True)
