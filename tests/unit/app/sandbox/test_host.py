"""Each set-up is known by its own files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.sandbox.host import KINDS, read_host
from tests.helpers.fake_hosts import DISTRIBUTIONS, LXC, MASKED, PROC, made

NAMES = {
    "debian12": ("Debian GNU/Linux 12 (bookworm)", "apt"),
    "debian13": ("Debian GNU/Linux 13 (trixie)", "apt"),
    "ubuntu22.04": ("Ubuntu 22.04.5 LTS", "apt"),
    "ubuntu24.04": ("Ubuntu 24.04.3 LTS", "apt"),
    "ubuntu26.04": ("Ubuntu 26.04 LTS", "apt"),
    "fedora": ("Fedora Linux 43 (Workstation Edition)", "dnf"),
    "arch": ("Arch Linux", "pacman"),
    "opensuse": ("openSUSE Tumbleweed", "zypper"),
    "docker": ("Debian GNU/Linux 12 (bookworm), in a container of Docker", "apt"),
    "podman": ("Fedora Linux 43 (Workstation Edition), in a container of Podman", "dnf"),
    "lxc": ("Debian GNU/Linux 13 (trixie), in a container of LXC", "apt"),
    "wsl2": ("Ubuntu 24.04.3 LTS, under WSL 2", "apt"),
    "wsl1": ("Ubuntu 22.04.5 LTS, under WSL 1", "apt"),
    "flatpak": ("Fedora Linux 43 (Workstation Edition), in a Flatpak", "dnf"),
    "snap": ("Ubuntu 24.04.3 LTS, in a snap", "apt"),
}


@pytest.mark.parametrize("kind", NAMES)
def test_each_set_up_is_known_by_its_files(tmp_path: Path, kind: str) -> None:
    host = read_host(made(tmp_path, kind), lambda: 6)
    assert host.kind == kind
    assert (host.name, host.manager) == NAMES[kind]
    assert host.landlock == 6
    assert host.has_bwrap


def test_all_that_are_told_apart_are_tried() -> None:
    assert {*NAMES, "other"} == set(KINDS)


@pytest.mark.parametrize(
    ("release", "name", "manager"),
    [
        ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22.1"\n',
         "Linux Mint", "apt"),
        ('PRETTY_NAME="Rocky Linux 9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"\n',
         "Rocky Linux 9.4", "dnf"),
        ("NAME='Manjaro Linux'\nID=manjaro\nID_LIKE=arch\n", "Manjaro Linux", "pacman"),
        ('PRETTY_NAME="NixOS 25.05"\nID=nixos\n', "NixOS 25.05", ""),
        ("", "a Linux without a name", ""),
        ('PRETTY_NAME="\x1b[31m' + "x" * 500 + '"\nID=x\n', "[31m" + "x" * 76, ""),
    ],
)  # fmt: skip
def test_others_have_their_own_name(tmp_path: Path, release: str, name: str, manager: str) -> None:
    host = read_host(made(tmp_path, "arch", **{"etc/os-release": None}), lambda: 1)
    assert host.kind == "other"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(release)
    host = read_host(tmp_path, lambda: 1)
    assert (host.kind, host.name, host.manager) == ("other", name, manager)


def test_the_distributions_own_release_counts_where_etc_has_none(tmp_path: Path) -> None:
    made(tmp_path, "arch")
    (tmp_path / "usr/lib").mkdir()
    (tmp_path / "usr/lib/os-release").write_text(DISTRIBUTIONS["fedora"])
    (tmp_path / "etc/os-release").unlink()
    assert read_host(tmp_path, lambda: 1).kind == "fedora"


def test_a_machine_that_was_made_of_an_image_is_no_container(tmp_path: Path) -> None:
    """Docker's file came along; no mount of a container is there."""
    host = read_host(made(tmp_path, "debian12", **{".dockerenv": ""}), lambda: 6)
    assert host.kind == "debian12"


def test_a_container_on_windows_is_a_container(tmp_path: Path) -> None:
    kernel = {"proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2\n"}
    assert read_host(made(tmp_path, "docker", **kernel), lambda: 6).kind == "docker"


@pytest.mark.parametrize(
    ("mountinfo", "masked"),
    [
        (PROC, False),
        (MASKED, True),
        (PROC.replace("rw,nosuid", "ro,nosuid"), True),
        (LXC["proc/self/mountinfo"], True),
        (LXC["proc/self/mountinfo"]
         + "1040 1012 0:52 / /dev/.lxc/proc rw,relatime - proc proc rw\n", False),
        ("nonsense\n1 2 3\n\xff - proc\n", False),
        ("", False),
    ],
)  # fmt: skip
def test_whether_proc_is_masked(tmp_path: Path, mountinfo: str, masked: bool) -> None:
    host = read_host(made(tmp_path, "arch", proc__self__mountinfo=mountinfo), lambda: 6)
    assert host.proc_masked is masked


def test_a_root_without_files_is_read(tmp_path: Path) -> None:
    host = read_host(tmp_path, lambda: 0)
    assert (host.kind, host.has_bwrap, host.landlock, host.machine) == ("other", False, 0, "NAME")


def test_files_of_any_size_are_bounded(tmp_path: Path) -> None:
    endless = tmp_path / "proc/self/mountinfo"
    endless.parent.mkdir(parents=True)
    endless.symlink_to("/dev/zero")
    assert not read_host(tmp_path, lambda: 6).proc_masked


def test_this_machine_is_known() -> None:
    host = read_host()
    assert host.name
    assert host.landlock >= 1  # the attack suite runs here


BOX = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev"]
SCRIPT = "from app.sandbox.host import read_host; print(read_host().kind)"


def _mounts_inside(*words: str) -> str:
    """The mounts of a real sandbox of an ordinary user: for root bubblewrap covers parts itself."""
    drop = {"user": 61845, "group": 61845, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(
        [*BOX, "--proc", "/proc", *words, "--", "/bin/cat", "/proc/self/mountinfo"],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        **drop,  # type: ignore[call-overload] # the keys are those of Popen
    ).stdout


@pytest.mark.parametrize(
    ("words", "masked"), [((), False), (("--ro-bind", "/dev/null", "/proc/version"), True)]
)
def test_for_real_where_proc_is_masked(
    tmp_path: Path, words: tuple[str, ...], masked: bool
) -> None:
    """bubblewrap itself says the same of both: see test_refusals."""
    mounts = _mounts_inside(*words)
    host = read_host(made(tmp_path, "arch", proc__self__mountinfo=mounts), lambda: 6)
    assert host.proc_masked is masked


def test_for_real_in_a_root_that_looks_like_a_container_of_podman() -> None:
    looks = ["--tmpfs", "/run", "--ro-bind", "/etc/hostname", "/run/.containerenv"]
    done = subprocess.run(
        [*BOX, "--proc", "/proc", *looks, "--", sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "podman\n"
