"""What kind of machine this is, and what of its set-up decides whether walls can be built on it.

Owns: the reading of the files that say so, bounded, below a root. Must not: start or change
anything, or judge what it found (`host_fixes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from app.sandbox import landlock

__all__ = ["KINDS", "Host", "Kind", "Manager", "read_host"]

Kind = Literal[
    "debian12", "debian13", "ubuntu22.04", "ubuntu24.04", "ubuntu26.04", "fedora", "arch",
    "opensuse", "docker", "podman", "lxc", "wsl2", "wsl1", "flatpak", "snap", "other",
]  # fmt: skip
Manager = Literal["apt", "dnf", "pacman", "zypper", ""]

KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "debian12": "Debian 12",
        "debian13": "Debian 13",
        "ubuntu22.04": "Ubuntu 22.04",
        "ubuntu24.04": "Ubuntu 24.04",
        "ubuntu26.04": "Ubuntu 26.04",
        "fedora": "Fedora",
        "arch": "Arch Linux",
        "opensuse": "openSUSE",
        "docker": "a container of Docker",
        "podman": "a container of Podman",
        "lxc": "a container of LXC (Incus, LXD, Proxmox)",
        "wsl2": "WSL 2",
        "wsl1": "WSL 1",
        "flatpak": "a Flatpak",
        "snap": "a snap",
        "other": "another Linux",
    }
)
"""Every set-up that is told apart, in plain words."""

_AROUND: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "docker": "in a container of Docker",
        "podman": "in a container of Podman",
        "lxc": "in a container of LXC",
        "wsl2": "under WSL 2",
        "wsl1": "under WSL 1",
        "flatpak": "in a Flatpak",
        "snap": "in a snap",
    }
)
_MANAGERS: Final[tuple[tuple[str, Manager], ...]] = (
    ("debian", "apt"),
    ("ubuntu", "apt"),
    ("fedora", "dnf"),
    ("rhel", "dnf"),
    ("arch", "pacman"),
    ("suse", "zypper"),
    ("opensuse", "zypper"),
)
MAX_BYTES: Final = 1024 * 1024
NAME_LENGTH: Final = 80
_LINE: Final = re.compile(r"""^([A-Z_]+)=["']?(.*?)["']?$""", re.MULTILINE)
_EMPTY_BY_DESIGN: Final = "/sys/fs/binfmt_misc"
"""A mount on a directory that is always empty hides nothing, so the kernel lets it pass."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as its files show it.

    Args:
        name: for people: `Ubuntu 24.04.1 LTS, in a container of Docker`.
        manager: of its packages; empty where it is none that is known.
        machine: its host name, or `NAME` where that is not known.
        clone_forbidden: `kernel.unprivileged_userns_clone` is 0 (Debian, hardened kernels).
        namespaces_none: `user.max_user_namespaces` is 0.
        apparmor_restricts: only programs with a profile may make user namespaces.
        has_profile, has_own_bwrap: of our package, loaded from `/etc/apparmor.d`.
        has_package: our package is installed, whether its profile is in place or not.
        has_other_profile: the distribution's own profile for `/usr/bin/bwrap` is in place.
        has_bwrap: some bubblewrap is there.
        label: what AppArmor or SELinux calls this process; empty without either.
        is_filtered: a seccomp filter holds for this process already.
        proc_masked: no whole view of `/proc` is mounted, so the kernel allows no new one.
        landlock: its ABI; 0 where it is missing or not active.
        lsms: the active security modules; empty where that cannot be read.
        manager_socket: `incus` or `lxd` where that answers inside its container.
    """

    kind: Kind
    name: str
    manager: Manager = ""
    machine: str = "NAME"
    clone_forbidden: bool = False
    namespaces_none: bool = False
    apparmor_restricts: bool = False
    has_profile: bool = False
    has_own_bwrap: bool = False
    has_package: bool = False
    has_other_profile: bool = False
    has_bwrap: bool = True
    label: str = ""
    is_filtered: bool = False
    proc_masked: bool = False
    landlock: int = 0
    lsms: tuple[str, ...] = ()
    manager_socket: Literal["incus", "lxd", ""] = ""

    @property
    def is_container(self) -> bool:
        return self.kind in ("docker", "podman", "lxc")


@dataclass(frozen=True, slots=True)
class _Mount:
    number: int
    parent: int
    root: str
    place: str
    is_read_only: bool
    kind: str


def read_host(root: Path = Path("/"), abi: Callable[[], int] = landlock.abi) -> Host:
    """Reads a machine's set-up. What cannot be read counts as not there. Takes about a millisecond.

    Args:
        root: where its files are; another one is for tests.
        abi: asks the kernel for Landlock.
    """
    release = _release(root)
    mounts = _mounts(_text(root / "proc/self/mountinfo"))
    label = _text(root / "proc/self/attr/current").strip("\0\n ")
    kind = _kind(root, release, mounts, label)
    pretty = _plain(release.get("PRETTY_NAME") or release.get("NAME") or "a Linux without a name")
    modules = _text(root / "sys/kernel/security/lsm").strip()
    machine = _text(root / "proc/sys/kernel/hostname").strip()
    places = [root / "usr/lib/gpugoblin/bwrap", root / "usr/bin/bwrap"]
    return Host(
        kind=kind,
        name=f"{pretty}, {_AROUND[kind]}" if kind in _AROUND else pretty,
        manager=_manager(release),
        machine=machine if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}", machine) else "NAME",
        clone_forbidden=_is(root, "kernel/unprivileged_userns_clone", "0"),
        namespaces_none=_is(root, "user/max_user_namespaces", "0"),
        apparmor_restricts=_is(root, "kernel/apparmor_restrict_unprivileged_userns", "1"),
        has_profile=(root / "etc/apparmor.d/gpugoblin-bwrap").exists(),
        has_own_bwrap=places[0].exists(),
        has_package=(root / "usr/share/gpugoblin/apparmor/gpugoblin-bwrap").exists(),
        has_other_profile=(root / "etc/apparmor.d/bwrap-userns-restrict").exists(),
        has_bwrap=any(place.exists() for place in places),
        label=_plain(label),
        is_filtered=re.search(r"^Seccomp:\s*2$", _text(root / "proc/self/status"), re.M)
        is not None,
        proc_masked=_is_masked(mounts),
        landlock=abi(),
        lsms=tuple(each for each in modules.split(",") if re.fullmatch(r"[a-z0-9_]{1,32}", each)),
        manager_socket=_socket(root),
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            said = b""
            while len(said) < MAX_BYTES and (piece := file.read(MAX_BYTES - len(said))):
                said += piece
    except OSError:
        return ""
    return said.decode("utf-8", "replace")


def _is(root: Path, setting: str, value: str) -> bool:
    return _text(root / "proc/sys" / setting).strip() == value


def _plain(text: str) -> str:
    """A file's words, fit for a line."""
    return "".join(each for each in text if each.isprintable())[:NAME_LENGTH]


def _release(root: Path) -> dict[str, str]:
    """os-release(5): the one of `/etc`, else the distribution's own."""
    text = _text(root / "etc/os-release") or _text(root / "usr/lib/os-release")
    return dict(_LINE.findall(text))


def _manager(release: Mapping[str, str]) -> Manager:
    family = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".lower().split()
    for word in family:
        for name, manager in _MANAGERS:
            if word == name or word.startswith(f"{name}-"):
                return manager
    return ""


def _kind(root: Path, release: Mapping[str, str], mounts: list[_Mount], label: str) -> Kind:
    if (root / ".flatpak-info").exists():
        return "flatpak"
    if label.startswith("snap."):
        return "snap"
    said = _text(root / "run/systemd/container").strip()
    # A machine that was made of an image keeps Docker's file; the mounts of a container are not.
    is_container = any(each.place in ("/etc/hosts", "/etc/hostname") for each in mounts)
    if ((root / ".dockerenv").exists() and is_container) or said == "docker":
        return "docker"
    if (root / "run/.containerenv").exists() or said == "podman":
        return "podman"
    is_lxc = re.search(r"(?:^|\0)container=lxc", _text(root / "proc/1/environ")) is not None
    if said.startswith("lxc") or is_lxc or _socket(root):
        return "lxc"
    kernel = _text(root / "proc/sys/kernel/osrelease").strip()
    if "microsoft" in kernel.lower():
        return "wsl1" if kernel.endswith("-Microsoft") else "wsl2"
    return _distribution(release)


def _distribution(release: Mapping[str, str]) -> Kind:
    name, number = release.get("ID", "").lower(), release.get("VERSION_ID", "")
    known: Mapping[str, Kind] = {
        "debian12": "debian12", "debian13": "debian13", "ubuntu22.04": "ubuntu22.04",
        "ubuntu24.04": "ubuntu24.04", "ubuntu26.04": "ubuntu26.04",
    }  # fmt: skip
    if f"{name}{number}" in known:
        return known[f"{name}{number}"]
    if name in ("fedora", "arch"):
        return "fedora" if name == "fedora" else "arch"
    return "opensuse" if name.startswith("opensuse") else "other"


def _socket(root: Path) -> Literal["incus", "lxd", ""]:
    if (root / "dev/incus/sock").exists():
        return "incus"
    return "lxd" if (root / "dev/lxd/sock").exists() else ""


def _mounts(text: str) -> list[_Mount]:
    """proc_pid_mountinfo(5); lines of another form are passed over."""
    found = []
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        words = head.split(" ")
        if len(words) < 6 or not (words[0].isdecimal() and words[1].isdecimal()):
            continue
        is_read_only = "ro" in words[5].split(",")
        kind = tail.partition(" ")[0]
        found.append(_Mount(int(words[0]), int(words[1]), words[3], words[4], is_read_only, kind))
    return found


def _is_masked(mounts: list[_Mount]) -> bool:
    """Whether the kernel will refuse a new `/proc` in namespaces of an ordinary user.

    It allows one where a mount of the whole of `/proc`, that may be written to, is seen with
    nothing laid over it (`mount_too_revealing` in fs/namespace.c). LXC with nesting shows such a
    one below `/dev/.lxc`.
    """
    whole = {each.number: each for each in mounts if each.kind == "proc" and each.root == "/"}
    hidden = {
        each.parent for each in mounts
        if each.parent in whole and not each.place.endswith(_EMPTY_BY_DESIGN)
    }  # fmt: skip
    return bool(whole) and all(
        each.number in hidden or each.is_read_only for each in whole.values()
    )
