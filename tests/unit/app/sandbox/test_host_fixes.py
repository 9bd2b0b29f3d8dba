"""Every set-up has its own way out, as one line, and none where nothing is in the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app.sandbox.host import Host, read_host
from app.sandbox.host_fixes import advising, blocks, fix, install
from gpugoblin.errors import SandboxError
from tests.helpers.fake_hosts import LXC, PROC, made

OPTION = "--security-opt"


def at(root: Path, kind: str, abi: int = 6, **changed: str | None) -> Host:
    return read_host(made(root, kind, **changed), lambda: abi)


def found(host: Host) -> list[tuple[str, str]]:
    return [(each.code, each.fix) for each in blocks(host)]


AS_IT_COMES = {
    "debian12": [], "debian13": [], "ubuntu22.04": [], "fedora": [], "arch": [], "opensuse": [],
    "wsl2": [],
    "ubuntu24.04": [("namespaces_denied_by_apparmor", "sudo apt install ./gpugoblin_*.deb")],
    "ubuntu26.04": [("namespaces_denied_by_apparmor", "sudo apt install ./gpugoblin_*.deb")],
    "docker": [("proc_masked", f"docker run {OPTION} seccomp=unconfined {OPTION}"
                f" apparmor=unconfined {OPTION} systempaths=unconfined")],
    "podman": [("proc_masked", f"podman run {OPTION} label=disable {OPTION} unmask=ALL")],
    "lxc": [("proc_masked", "incus config set goblin1 security.nesting=true && incus restart"
             " goblin1")],
    "wsl1": [("namespaces_nested_too_deep", "wsl --set-version DISTRIBUTION 2")],
    "flatpak": [("namespaces_nested_too_deep", "Install gpugoblin outside of it")],
    "snap": [("namespaces_nested_too_deep", "Install gpugoblin outside of it")],
}  # fmt: skip


@pytest.mark.parametrize("kind", AS_IT_COMES)
def test_what_is_in_the_way_as_a_set_up_comes(tmp_path: Path, kind: str) -> None:
    told = found(at(tmp_path, kind))
    assert [code for code, _ in told] == [code for code, _ in AS_IT_COMES[kind]]
    for (_, line), (_, part) in zip(told, AS_IT_COMES[kind], strict=True):
        assert part in line
        assert "\n" not in line


RELEASED: dict[str, dict[str, str]] = {
    "ubuntu24.04": {
        "usr/lib/gpugoblin/bwrap": "", "etc/apparmor.d/gpugoblin-bwrap": "",
        "usr/share/gpugoblin/apparmor/gpugoblin-bwrap": "",
    },
    "ubuntu26.04": {"etc/apparmor.d/bwrap-userns-restrict": ""},
    "docker": {
        "proc/self/mountinfo": PROC + "8 27 8:1 /h /etc/hosts rw - ext4 /dev/sda1 rw\n",
        "proc/self/attr/current": "unconfined\n", "proc/self/status": "Seccomp:\t0\n",
    },
    "podman": {"proc/self/mountinfo": PROC, "proc/self/attr/current": "u:r:spc_t:s0"},
    "lxc": {
        "proc/self/mountinfo": LXC["proc/self/mountinfo"]
        + "1040 1012 0:52 / /dev/.lxc/proc rw,relatime - proc proc rw\n"
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", RELEASED)
def test_the_way_out_is_one(tmp_path: Path, kind: str) -> None:
    """After it nothing is in the way any more."""
    assert blocks(at(tmp_path, kind, **RELEASED[kind])) == ()


def test_a_profile_that_was_not_put_in_place(tmp_path: Path) -> None:
    there = {"usr/lib/gpugoblin/bwrap": "", "usr/share/gpugoblin/apparmor/gpugoblin-bwrap": ""}
    host = at(tmp_path, "ubuntu24.04", **there)
    line = fix(host, "namespaces_denied_by_apparmor")
    assert "apparmor_parser -r /etc/apparmor.d/gpugoblin-bwrap" in line
    assert line.startswith("sudo cp /usr/share/gpugoblin/apparmor/gpugoblin-bwrap ")


MISSING = {
    "debian12": "sudo apt install bubblewrap", "debian13": "sudo apt install bubblewrap",
    "ubuntu22.04": "sudo apt install bubblewrap", "ubuntu24.04": "sudo apt install bubblewrap",
    "ubuntu26.04": "sudo apt install bubblewrap", "fedora": "sudo dnf install bubblewrap",
    "arch": "sudo pacman -S --needed bubblewrap", "opensuse": "sudo zypper install bubblewrap",
    "docker": "apt install bubblewrap", "podman": "dnf install bubblewrap",
    "lxc": "sudo apt install bubblewrap", "wsl2": "sudo apt install bubblewrap",
}  # fmt: skip


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_bubblewrap_is_installed_as_that_system_does(tmp_path: Path, kind: str) -> None:
    host = at(tmp_path, kind, usr__bin__bwrap=None)
    assert fix(host, "bwrap_missing") == f"Install it: {MISSING[kind]}"
    assert ("bwrap_missing", f"Install it: {MISSING[kind]}") in found(host)
    utilities = MISSING[kind].replace("bubblewrap", "util-linux")
    assert fix(host, "prlimit_missing") == f"Install it: {utilities}"


SETTINGS = [
    ("debian12", "kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("arch", "kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("fedora", "user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ("lxc", "user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
]


@pytest.mark.parametrize(("kind", "setting", "value", "line"), SETTINGS)
def test_a_setting_that_forbids_is_named_and_set(
    tmp_path: Path, kind: str, setting: str, value: str, line: str
) -> None:
    host = at(tmp_path, kind, **{f"proc/sys/{setting}": value})
    told = dict(found(host))["namespaces_forbidden"]
    assert f"echo {line} | sudo tee -a /etc/sysctl.d/60-gpugoblin.conf && sudo sysctl" in told
    assert told.startswith("On its host: ") is (kind == "lxc")
    assert fix(host, "namespaces_forbidden") == told


def test_two_settings_that_forbid_are_both_kept(tmp_path: Path) -> None:
    """Each line, given to a shell, leaves in the file what the other has put there."""
    closed = {
        "proc/sys/kernel/unprivileged_userns_clone": "0",
        "proc/sys/user/max_user_namespaces": "0",
    }
    lines = [line for code, line in found(at(tmp_path, "debian12", **closed))
             if code == "namespaces_forbidden"]  # fmt: skip
    assert len(lines) == 2
    kept = tmp_path / "kept.conf"
    for line in lines:
        told = line.replace("/etc/sysctl.d/60-gpugoblin.conf", str(kept))
        told = told.replace("sudo sysctl --system", "true").replace("sudo ", "")
        subprocess.run(["sh", "-c", told], check=True, stdout=subprocess.DEVNULL)
    assert kept.read_text().splitlines() == [
        "kernel.unprivileged_userns_clone=1", "user.max_user_namespaces=15000"
    ]  # fmt: skip


LANDLOCK = {
    "debian13": "lsm=landlock,lockdown,yama,apparmor\"' | sudo tee /etc/default/grub.d/",
    "fedora": 'sudo grubby --update-kernel=ALL --args="lsm=landlock,lockdown,yama,apparmor"',
    "opensuse": "sudo update-bootloader --add-option lsm=landlock,lockdown,yama,apparmor",
    "arch": "Add lsm=landlock,lockdown,yama,apparmor to the kernel's parameters",
    "docker": "Boot the container's host with lsm=landlock,lockdown,yama,apparmor",
    "wsl2": "In Windows: wsl --update && wsl --shutdown",
}


@pytest.mark.parametrize("kind", LANDLOCK)
def test_a_kernel_without_landlock_is_booted_otherwise(tmp_path: Path, kind: str) -> None:
    host = at(tmp_path, kind, abi=0)
    assert LANDLOCK[kind] in fix(host, "landlock_missing")
    assert "landlock_missing" in dict(found(host))


def test_modules_that_cannot_be_read_are_the_usual_ones(tmp_path: Path) -> None:
    host = at(tmp_path, "arch", abi=0, sys__kernel__security__lsm=None)
    assert "lsm=landlock,lockdown,yama,integrity,apparmor,bpf " in fix(host, "landlock_missing")


def test_programs_that_are_not_as_they_must_be(tmp_path: Path) -> None:
    arch, old = at(tmp_path / "a", "arch"), at(tmp_path / "b", "ubuntu22.04")
    image, other = (
        at(tmp_path / "c", "docker"),
        at(tmp_path / "d", "arch", **{"etc/os-release": None}),
    )
    assert "sudo pacman -S bubblewrap" in fix(arch, "bwrap_setuid")
    assert fix(old, "bwrap_setuid") == ""  # the bit is taken away: the code's own line
    assert "sudo do-release-upgrade" in fix(old, "bwrap_too_old")
    assert "sudo pacman -Syu bubblewrap" in fix(arch, "bwrap_too_old")
    assert fix(image, "bwrap_untrusted") == "Reinstall it: apt install --reinstall bubblewrap"
    assert [fix(other, code) for code in ("bwrap_missing", "bwrap_too_old")] == ["", ""]
    assert install(other, {"apt": "x"}) == ""


def test_apparmor_of_a_containers_host(tmp_path: Path) -> None:
    masked, free = at(tmp_path / "a", "docker"), at(tmp_path / "b", "docker", **RELEASED["docker"])
    assert "apparmor=unconfined" in fix(masked, "namespaces_denied_by_apparmor")
    assert "container's host" in fix(free, "namespaces_denied_by_apparmor")


def test_a_plain_lxc_and_an_unknown_container(tmp_path: Path) -> None:
    bare = at(tmp_path / "a", "lxc", dev__incus__sock=None)
    assert "/var/lib/lxc/goblin1/config" in fix(bare, "proc_masked")
    assert "features nesting=1" in fix(bare, "proc_masked")
    other = at(tmp_path / "b", "arch", proc__self__mountinfo=LXC["proc/self/mountinfo"])
    assert fix(other, "proc_masked") == "Start it without anything laid over /proc"


def test_a_refusal_goes_on_with_the_machines_own_way_out(tmp_path: Path) -> None:
    host = at(tmp_path, "fedora")
    with pytest.raises(SandboxError) as refusal, advising(lambda: host):
        raise SandboxError("bwrap_missing", path="/usr/bin/bwrap")
    assert refusal.value.next_step == "Install it: sudo dnf install bubblewrap"
    assert "/usr/bin/bwrap does not exist" in refusal.value.what
    with pytest.raises(SandboxError) as again, advising(lambda: host):
        raise refusal.value
    assert again.value is refusal.value


def test_a_refusal_that_is_told_exactly_already_stays(tmp_path: Path) -> None:
    host = at(tmp_path, "fedora")
    for code in ("seccomp_missing", "sandbox_start_failed", "namespaces_nested_too_deep"):
        error = SandboxError(code, said="x", status=1)
        with pytest.raises(SandboxError) as refusal, advising(lambda: host):
            raise error
        assert refusal.value is error  # nothing is in the way there, as far as files tell
