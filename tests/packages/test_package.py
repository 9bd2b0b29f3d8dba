"""The package on bare Debians: installed, doctor, a first verified task, the window, and gone."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.debian_root import DebianRoot, has_tools
from tests.helpers.desktop import x_server
from tests.helpers.installed import OWNER, Installed, build
from tests.helpers.network import Network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not has_tools(), reason="only root makes a Debian, with debootstrap"),
]

MOST_BYTES = 50_000_000
MOST_S = 180.0
"""From the first word of apt to the first verified task."""

KEPT_BY_APT = "adduser"
"""The apt of Debian 13 depends on base-passwd or on this, so that it is kept once it came."""

BOOKS = re.compile(
    r"/(var/(lib/(dpkg|apt|systemd|ucf|pam)|cache|log|mail)|usr/share/(doc|info|man|mime)|etc)/"
)
"""Where apt, dpkg and other packages write."""


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gg-") as folder:
        yield build(Path(folder))


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="gg-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_it_is_small_and_the_same_every_time(package: Path, root: Path) -> None:
    assert package.stat().st_size <= MOST_BYTES
    again = build(root)
    first, second = (hashlib.sha256(one.read_bytes()).hexdigest() for one in (package, again))
    assert first == second


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_b3602_from_apt_to_a_verified_task_and_back(package: Path, root: Path, suite: str) -> None:
    debian = DebianRoot.make(root / "debian", suite)
    installed = Installed(debian, package, root / "logs")
    before = debian.files()
    taken_s = installed.install()
    found = debian.run("gpugoblin", "doctor", user=OWNER).stdout
    assert re.search(r"^well +Walls: An engine starts, walled in at the level full", found, re.M)
    with Network(root / "network", {}) as network:
        try:
            taken_s += installed.first_task(network)
            assert taken_s <= MOST_S
            with x_server() as screen:
                maps = installed.show_window(screen["DISPLAY"])
            assert "/opt/gpugoblin/" in maps
            assert "libqxcb.so" in maps
        finally:
            installed.end_agent()
    said = (root / "logs" / "agent.log").read_text()
    assert "Traceback" not in said
    check_gone(debian, before)


def check_gone(debian: DebianRoot, before: set[str]) -> None:
    """Removed and purged, with what came for it: only the owner's home has anything new."""
    unlike = {name for name in debian.files() - before if "gpugoblin" in name}
    assert any(name.startswith("/opt/gpugoblin/") for name in unlike)
    debian.do("apt-get", "purge", "-y", "-q", "gpugoblin")
    debian.do("apt-get", "autoremove", "-y", "-q", "--purge")
    left = debian.files() - before - set(debian.run("dpkg", "-L", KEPT_BY_APT).stdout.split())
    home = f"/home/{OWNER}/"
    ours = {name for name in left if "gpugoblin" in name and not name.startswith(home)}
    assert {name for name in ours if not name.startswith(("/var/cache/apt", "/var/log"))} == set()
    assert {name for name in left if not name.startswith(home) and not BOOKS.match(name)} == set()
    assert f"{home}.config/gpugoblin/agent.toml" in left
    passwd = (debian.root / "etc/passwd").read_text()
    assert "gpugoblin" not in passwd
