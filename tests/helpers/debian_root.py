"""A bare Debian in a folder, entered by bubblewrap: what a package meets on a machine like that.

Owns: its making by debootstrap, with this machine's own sources of packages, and the running of
commands in it as root or as a user. It has the machine's network and its own everything else.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["DebianRoot", "end", "has_tools"]

APT = Path("/etc/apt")
LIMIT_S = 900.0


def has_tools() -> bool:
    """Whether this machine can make one: only root can."""
    tools = ("debootstrap", "bwrap", "apt-get")
    return os.geteuid() == 0 and all(shutil.which(name) for name in tools)


def _sources() -> list[Path]:
    """The machine's own sources of Debian's packages."""
    found = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]
    return [one for one in found if one.is_file() and "debian" in one.read_text(errors="replace")]


class DebianRoot:
    """One Debian.

    Args:
        root: where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def make(cls, root: Path, suite: str) -> DebianRoot:
        """Makes one of a release, or copies the one that `GPUGOBLIN_DEBIAN_ROOT` names."""
        ready = os.environ.get("GPUGOBLIN_DEBIAN_ROOT")
        if ready:
            subprocess.run(["cp", "-a", "--reflink=auto", ready, str(root)], check=True)
        else:
            texts = "\n".join(one.read_text() for one in _sources())
            mirror = re.search(r"(?:^URIs:\s*|^deb\s+(?:\[[^]]*\]\s*)?)(\S+)", texts, re.MULTILINE)
            assert mirror is not None, "this machine has no source of Debian's packages"
            words = ["debootstrap", "--variant=minbase", "--include=ca-certificates"]
            subprocess.run(
                [*words, suite, str(root), mirror[1]],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=LIMIT_S,
            )
        made = cls(root)
        made._take_sources(suite)
        return made

    def _take_sources(self, suite: str) -> None:
        release = Path("/etc/os-release").read_text()
        own = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
        (self.root / "etc/apt/sources.list").unlink(missing_ok=True)
        for source in _sources():
            text = source.read_text()
            if own is not None:
                text = text.replace(own[1], suite)
            (self.root / "etc/apt/sources.list.d" / source.name).write_text(text)
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        for setting in (APT / "apt.conf.d").glob("99*"):
            shutil.copy(setting, self.root / "etc/apt/apt.conf.d" / setting.name)

    def words(
        self, words: Sequence[str], user: str = "", variables: Mapping[str, str] | None = None
    ) -> list[str]:
        """The command line that runs `words` in it."""
        home = f"/home/{user}" if user else "/root"
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
            "HOME": home,
            **(variables or {}),
        }
        enter = ["bwrap", "--bind", str(self.root), "/", "--dev-bind", "/proc", "/proc"]
        enter += [
            "--dev-bind",
            "/dev",
            "/dev",
            "--ro-bind",
            "/sys",
            "/sys",
            "--tmpfs",
            "/run",
            "--cap-add",
            "ALL",
        ]
        enter += ["--die-with-parent", "--clearenv", "--chdir", "/"]
        for name, value in environment.items():
            enter += ["--setenv", name, value]
        return [*enter, *(["runuser", "-u", user, "--"] if user else []), *words]

    def run(
        self, *words: str, user: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, whatever its status."""
        return subprocess.run(
            self.words(words, user, variables),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
        )

    def do(self, *words: str, user: str = "", variables: Mapping[str, str] | None = None) -> str:
        """Runs a command that must end well; what it printed."""
        done = self.run(*words, user=user, variables=variables)
        assert done.returncode == 0, (
            words,
            done.returncode,
            done.stdout[-3000:],
            done.stderr[-3000:],
        )
        return done.stdout

    def start(
        self, log: Path, *words: str, user: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a command in a process group of its own, with what it says in a file."""
        with log.open("ab") as file:
            return subprocess.Popen(
                self.words(words, user, variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def files(self) -> set[str]:
        """Every path in it, without those that packages and their manager keep books in."""
        found: set[str] = set()
        for folder, _folders, names in os.walk(self.root):
            place = "/" + os.path.relpath(folder, self.root).removeprefix(".")
            found.update(f"{place.rstrip('/')}/{name}" for name in [*names, *_folders])
        return {name for name in found if not re.match(r"/(proc|sys|dev|run|tmp)(/|$)", name)}


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program that was started in a root, with all of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                continue
