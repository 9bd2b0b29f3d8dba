"""What keeps walls from being built on a machine, and the one line that is the way out there.

Owns: the table of fixes by set-up. Must not: read a file, start or change anything. Whether walls
stand is never judged from this: a start decides that (`probe.py`), and these are its reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.sandbox.host import Host, Manager, read_host
from gpugoblin.errors import SandboxError

__all__ = ["Block", "advising", "blocks", "fix", "install"]

_INSTALL: Final[Mapping[Manager, str]] = MappingProxyType(
    {
        "apt": "sudo apt install {}",
        "dnf": "sudo dnf install {}",
        "pacman": "sudo pacman -S --needed {}",
        "zypper": "sudo zypper install {}",
    }
)
_UPGRADE: Final[Mapping[Manager, str]] = MappingProxyType(
    {
        "apt": "sudo apt update && sudo apt install bubblewrap",
        "dnf": "sudo dnf upgrade bubblewrap",
        "pacman": "sudo pacman -Syu bubblewrap",
        "zypper": "sudo zypper update bubblewrap",
    }
)
_REINSTALL: Final[Mapping[Manager, str]] = MappingProxyType(
    {
        "apt": "sudo apt install --reinstall bubblewrap",
        "dnf": "sudo dnf reinstall bubblewrap",
        "pacman": "sudo pacman -S bubblewrap",
        "zypper": "sudo zypper install --force bubblewrap",
    }
)
_PACKAGES: Final = MappingProxyType(
    {"bwrap_missing": "bubblewrap", "prlimit_missing": "util-linux"}
)
_KEPT: Final = "/etc/sysctl.d/60-gpugoblin.conf"
_PROFILE: Final = "gpugoblin-bwrap"
_LSMS: Final = ("lockdown", "yama", "integrity", "apparmor", "bpf")
"""What distributions turn on, for machines that do not tell what is."""


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that keeps walls from being built. `code`: of the refusal to which it leads.

    Args:
        why: a clause that goes on after the machine's name and a colon, without a full stop.
        fix: one line.
    """

    code: str
    why: str
    fix: str


def install(host: Host, packages: Mapping[Manager, str]) -> str:
    """The command that installs a package there; empty where its manager is not known.

    Args:
        packages: what it is called, by manager.
    """
    if host.manager not in packages or host.manager not in _INSTALL:
        return ""
    return _in_place(host, _INSTALL[host.manager].format(packages[host.manager]))


def _in_place(host: Host, command: str) -> str:
    """Containers have no sudo, and whoever builds one is root."""
    return command.replace("sudo ", "") if host.kind in ("docker", "podman") else command


def blocks(host: Host) -> tuple[Block, ...]:
    """All that is in the way, as far as files tell; what holds for the whole machine first."""
    found = [*_around(host), *_settings(host)]
    if host.landlock == 0 and host.kind not in ("wsl1", "flatpak", "snap"):
        found.append(Block("landlock_missing", "Landlock is not active", _landlock(host)))
    if not host.has_bwrap:
        found.append(Block("bwrap_missing", "bubblewrap is missing", fix(host, "bwrap_missing")))
    return tuple(found)


def _around(host: Host) -> list[Block]:
    """What a container, another sandbox or Windows does."""
    code = "namespaces_nested_too_deep"
    outside = "gpugoblin outside of it: its own package, or its tarball"
    if host.kind == "wsl1":
        why = "this is no Linux kernel, and it has neither namespaces nor Landlock"
        return [
            Block(code, why, "In Windows: wsl --set-version DISTRIBUTION 2 (`wsl -l` names it)")
        ]
    if host.kind == "flatpak":
        return [Block(code, "Flatpak lets no program build walls of its own", f"Install {outside}")]
    if host.kind == "snap":
        return [Block(code, "a snap lets no program build walls of its own", f"Install {outside}")]
    options = _options(host)
    if options:
        why = "the container keeps programs from making namespaces"
        return [Block("proc_masked" if host.proc_masked else code, why, options)]
    return []


def _options(host: Host) -> str:
    """The way out of a container that forbids walls; empty where nothing of that is seen."""
    options = []
    if host.kind == "docker":
        if host.is_filtered:
            options.append("--security-opt seccomp=unconfined")
        if host.label.startswith("docker-"):
            options.append("--security-opt apparmor=unconfined")
        if host.proc_masked:
            options.append("--security-opt systempaths=unconfined")
        return f"Start it with: docker run {' '.join(options)} ..." if options else ""
    if host.kind == "podman":
        if host.label.startswith("containers-"):
            options.append("--security-opt apparmor=unconfined")
        if ":container_" in host.label:
            options.append("--security-opt label=disable")
        if host.proc_masked:
            options.append("--security-opt unmask=ALL")
        return f"Start it with: podman run {' '.join(options)} ..." if options else ""
    if host.kind == "lxc" and host.proc_masked:
        name, tool = host.machine, {"incus": "incus", "lxd": "lxc"}.get(host.manager_socket)
        if tool is not None:
            return (
                f"On its host: {tool} config set {name} security.nesting=true"
                f" && {tool} restart {name}"
            )
        return (
            "On its host: sudo sh -c 'echo lxc.include = /usr/share/lxc/config/nesting.conf >>"
            f" /var/lib/lxc/{name}/config' (Proxmox: pct set ID --features nesting=1), then restart"
            " the container"
        )
    return "Start it without anything laid over /proc" if host.proc_masked else ""


def _settings(host: Host) -> list[Block]:
    """What the administrator of this very system has set."""
    found = []
    where = "On its host: " if host.is_container else ""
    if host.clone_forbidden:
        found.append(_forbidden(where, "kernel.unprivileged_userns_clone", 1))
    if host.namespaces_none:
        found.append(_forbidden(where, "user.max_user_namespaces", 15000))
    if host.apparmor_restricts and not host.is_container and not _may_by_profile(host):
        why = "AppArmor lets only programs with a profile make namespaces"
        found.append(Block("namespaces_denied_by_apparmor", why, _profile(host)))
    return found


def _forbidden(where: str, setting: str, value: int) -> Block:
    # Added: another setting may have been put there by the line before.
    line = f"echo {setting}={value} | sudo tee -a {_KEPT} && sudo sysctl --system"
    return Block("namespaces_forbidden", f"{setting} forbids namespaces", f"{where}{line}")


def _may_by_profile(host: Host) -> bool:
    """Whether the bubblewrap that will be started has a profile; ours goes first where it is."""
    return host.has_profile if host.has_own_bwrap else host.has_other_profile


def _profile(host: Host) -> str:
    if host.has_package:
        kept = f"/etc/apparmor.d/{_PROFILE}"
        return (
            f"sudo cp /usr/share/gpugoblin/apparmor/{_PROFILE} {kept} && sudo apparmor_parser -r"
            f" {kept}"
        )
    return "sudo apt install ./gpugoblin_*.deb (gpugoblin's package has a profile for its walls)"


def _landlock(host: Host) -> str:
    others = [each for each in host.lsms or _LSMS if each not in ("capability", "landlock")]
    words = f"lsm={','.join(('landlock', *others))}"
    if host.is_container:
        return f"Boot the container's host with {words}"
    if host.kind == "wsl2":
        return "In Windows: wsl --update && wsl --shutdown (and no `lsm=` in .wslconfig)"
    if host.manager == "apt":
        line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"'
        kept = "/etc/default/grub.d/60-landlock.cfg"
        return f"echo '{line}' | sudo tee {kept} && sudo update-grub && sudo reboot"
    if host.manager == "dnf":
        return f'sudo grubby --update-kernel=ALL --args="{words}" && sudo reboot'
    if host.manager == "zypper":
        return (
            f"sudo update-bootloader --add-option {words} && sudo update-bootloader --refresh"
            " && sudo reboot"
        )
    return f"Add {words} to the kernel's parameters in your boot loader, and restart"


def fix(host: Host, code: str) -> str:
    """The exact way out of a refusal on this machine; empty where the code's own is right."""
    if code in _PACKAGES:
        command = install(host, dict.fromkeys(_INSTALL, _PACKAGES[code]))
        return f"Install it: {command}" if command else ""
    if code == "bwrap_too_old" and host.kind == "ubuntu22.04":
        return "Upgrade Ubuntu, whose bubblewrap is 0.6: sudo do-release-upgrade"
    if code in ("bwrap_too_old", "bwrap_untrusted"):
        verb, table = (
            ("Upgrade", _UPGRADE) if code == "bwrap_too_old" else ("Reinstall", _REINSTALL)
        )
        command = _in_place(host, table.get(host.manager, ""))
        return f"{verb} it: {command}" if command else ""
    if code == "bwrap_setuid" and host.manager == "pacman":
        return "Take the package without that bit: sudo pacman -S bubblewrap"
    if code not in _BY_BLOCKS:
        return ""
    found = blocks(host)
    same = [each.fix for each in found if each.code == code]
    if same:
        return same[0]
    if code == "namespaces_denied_by_apparmor" and host.is_container:
        return _options(host) or (
            "Install gpugoblin's package on the container's host and in it: the profile has to be"
            " loaded there"
        )
    return found[0].fix if found else ""


_BY_BLOCKS: Final = frozenset(
    {
        "namespaces_denied_by_apparmor", "namespaces_forbidden", "namespaces_nested_too_deep",
        "proc_masked", "landlock_missing", "walls_incomplete", "sandbox_start_failed",
    }
)  # fmt: skip
"""Refusals whose cause the machine's own files may tell more exactly than a program's words."""


@contextmanager
def advising(look: Callable[[], Host] = read_host) -> Iterator[None]:
    """A refusal inside goes on with this machine's own way out, where there is one."""
    try:
        yield
    except SandboxError as error:
        exact = "" if "next_step" in error.fields else fix(look(), error.code)
        if not exact:
            raise
        raise SandboxError(error.code, **error.fields, next_step=exact) from error
