"""The files by which twelve set-ups and four more are known, as those systems have them.

Owns: the making of a root with such files. `os-release`, `mountinfo`, labels and kernel names are
those of default installations of each.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DISTRIBUTIONS", "DOCKER", "LXC", "MASKED", "PODMAN", "PROC", "made"]

DISTRIBUTIONS: dict[str, str] = {
    "debian12": (
        'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n'
        'VERSION_ID="12"\nVERSION="12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
    ),
    "debian13": (
        'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nNAME="Debian GNU/Linux"\n'
        'VERSION_ID="13"\nVERSION="13 (trixie)"\nVERSION_CODENAME=trixie\n'
        "DEBIAN_VERSION_FULL=13.1\nID=debian\n"
    ),
    "ubuntu22.04": (
        'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\n'
        'VERSION="22.04.5 LTS (Jammy Jellyfish)"\nVERSION_CODENAME=jammy\nID=ubuntu\n'
        "ID_LIKE=debian\nUBUNTU_CODENAME=jammy\n"
    ),
    "ubuntu24.04": (
        'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n'
        'VERSION="24.04.3 LTS (Noble Numbat)"\nVERSION_CODENAME=noble\nID=ubuntu\n'
        "ID_LIKE=debian\nUBUNTU_CODENAME=noble\nLOGO=ubuntu-logo\n"
    ),
    "ubuntu26.04": (
        'PRETTY_NAME="Ubuntu 26.04 LTS"\nNAME="Ubuntu"\nVERSION_ID="26.04"\n'
        "ID=ubuntu\nID_LIKE=debian\nLOGO=ubuntu-logo\n"
    ),
    "fedora": (
        'NAME="Fedora Linux"\nVERSION="43 (Workstation Edition)"\nRELEASE_TYPE=stable\nID=fedora\n'
        'VERSION_ID=43\nVERSION_CODENAME=""\nPRETTY_NAME="Fedora Linux 43 (Workstation Edition)"\n'
        'ANSI_COLOR="0;38;2;60;110;180"\n'
    ),
    "arch": (
        'NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n'
        'ANSI_COLOR="38;2;23;147;209"\nLOGO=archlinux-logo\n'
    ),
    "opensuse": (
        'NAME="openSUSE Tumbleweed"\n# VERSION="20261120"\nID="opensuse-tumbleweed"\n'
        'ID_LIKE="opensuse suse"\nVERSION_ID="20261120"\nPRETTY_NAME="openSUSE Tumbleweed"\n'
    ),
}

PROC = "22 27 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw\n"
"""A machine of its own, with what systemd lays on a directory that is always empty."""
_BINFMT = (
    "31 22 0:27 / /proc/sys/fs/binfmt_misc rw,relatime shared:13 - autofs systemd-1 rw,fd=29\n"
    "98 31 0:41 / /proc/sys/fs/binfmt_misc rw,nosuid,nodev,noexec - binfmt_misc binfmt_misc rw\n"
)
MASKED = (
    "638 637 0:60 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
    "521 638 0:60 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw\n"
    "522 638 0:60 /fs /proc/fs ro,nosuid,nodev,noexec,relatime - proc proc rw\n"
    "526 638 0:64 / /proc/acpi ro,relatime - tmpfs tmpfs ro\n"
    "527 638 0:61 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755\n"
)
"""What Docker and Podman lay over parts of /proc."""
_OVERLAY = "637 520 0:57 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/x\n"
_NAMES = (
    "647 637 8:1 /var/lib/containers/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw\n"
    "648 637 8:1 /var/lib/containers/hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n"
)
DOCKER = {
    ".dockerenv": "",
    "proc/self/mountinfo": _OVERLAY + MASKED + _NAMES,
    "proc/self/attr/current": "docker-default (enforce)\n",
    "proc/self/status": "Name:\tpython3\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n",
}
PODMAN = {
    "run/.containerenv": 'engine="podman-5.4.2"\nname="goblin"\n',
    "proc/self/mountinfo": _OVERLAY + MASKED + _NAMES,
    "proc/self/attr/current": "system_u:system_r:container_t:s0:c10,c200\0",
    "proc/self/status": "Name:\tpython3\nSeccomp:\t2\nSeccomp_filters:\t1\n",
}
LXC = {
    "run/systemd/container": "lxc",
    "dev/incus/sock": "",
    "proc/sys/kernel/hostname": "goblin1\n",
    "proc/self/attr/current": "incus-goblin1_</var/lib/incus>//&:incus-goblin1:unconfined\n",
    "proc/self/mountinfo": (
        "1018 1010 0:52 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
        "1021 1018 0:53 /proc/cpuinfo /proc/cpuinfo rw,nosuid,nodev - fuse.lxcfs lxcfs rw\n"
        "1022 1018 0:53 /proc/meminfo /proc/meminfo rw,nosuid,nodev - fuse.lxcfs lxcfs rw\n"
    ),
}
_OWN = {
    "proc/self/mountinfo": PROC + _BINFMT,
    "proc/self/attr/current": "unconfined\n",
    "proc/self/status": "Name:\tpython3\nNoNewPrivs:\t0\nSeccomp:\t0\n",
    "proc/sys/kernel/osrelease": "6.12.48+deb13-amd64\n",
    "proc/sys/user/max_user_namespaces": "63000\n",
    "sys/kernel/security/lsm": "lockdown,capability,landlock,yama,apparmor",
    "usr/bin/bwrap": "",
}
_MORE: dict[str, tuple[str, dict[str, str]]] = {
    "debian12": ("debian12", {"proc/sys/kernel/unprivileged_userns_clone": "1\n"}),
    "debian13": ("debian13", {"proc/sys/kernel/unprivileged_userns_clone": "1\n"}),
    "ubuntu24.04": (
        "ubuntu24.04", {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}
    ),
    "ubuntu26.04": (
        "ubuntu26.04", {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}
    ),
    "fedora": (
        "fedora", {"proc/self/attr/current": "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0\0"}
    ),
    "docker": ("debian12", DOCKER),
    "podman": ("fedora", PODMAN),
    "lxc": ("debian13", LXC),
    "wsl2": (
        "ubuntu24.04", {"proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2\n"}
    ),
    "wsl1": ("ubuntu22.04", {"proc/sys/kernel/osrelease": "4.4.0-26100-Microsoft\n"}),
    "flatpak": ("fedora", {".flatpak-info": "[Application]\nname=org.example.Shell\n"}),
    "snap": ("ubuntu24.04", {"proc/self/attr/current": "snap.shell.shell (enforce)\n"}),
}  # fmt: skip


def made(root: Path, kind: str, **changed: str | None) -> Path:
    """A root with the files of a set-up as it is by default.

    Args:
        changed: other contents by path, with `__` for `/`; None: the file is not there.
    """
    base, more = _MORE.get(kind, (kind, {}))
    files: dict[str, str | None] = {"etc/os-release": DISTRIBUTIONS[base], **_OWN, **more}
    files |= {name.replace("__", "/"): text for name, text in changed.items()}
    for name, text in files.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return root
