"""Each cause is told apart, from the texts that were measured and from real programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.sandbox import refusals
from app.sandbox.refusals import check_program, check_version, classify
from gpugoblin.errors import SandboxError

BWRAP = Path("/usr/bin/bwrap")

MEASURED = [
    ("bwrap: setting up uid map: Permission denied", "namespaces_denied_by_apparmor"),
    (
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        "namespaces_denied_by_apparmor",
    ),
    (
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow"
        " non-privileged user namespaces.",
        "namespaces_forbidden",
    ),
    (
        "bwrap: No permissions to creating new namespace, likely because the kernel does not",
        "namespaces_forbidden",
    ),
    (
        "bwrap: Creating new namespace failed: nesting depth or"
        " /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "namespaces_nested_too_deep",
    ),
    (
        "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        "proc_masked",
    ),
    (
        "bwrap: Can't read /proc/sys/kernel/overflowuid: No such file or directory",
        "overflowuid_unreadable",
    ),
    (
        "bwrap: Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP)"
        " reported EINVAL.",
        "seccomp_missing",
    ),
    ("bwrap: Unknown option --disable-userns", "bwrap_too_old"),
    ("bwrap: Can't find source path /x/y: Permission denied", "runtime_unreadable"),
    ("SandboxError: The running kernel has no Landlock [landlock_missing]", "walls_incomplete"),
    ("something that nobody has seen", "sandbox_start_failed"),
    ("", "sandbox_start_failed"),
]


@pytest.mark.parametrize(("said", "code"), MEASURED)
def test_every_text_has_its_code_and_its_fix(said: str, code: str) -> None:
    refusal = classify(said, 1, BWRAP, 1000)
    assert refusal.code == code
    assert refusal.next_step
    assert "\n" not in str(refusal)


def test_every_refusal_gives_another_fix() -> None:
    fixes = {classify(said, 1, BWRAP, 1000).next_step for said, _ in MEASURED}
    assert len(fixes) == len({code for _, code in MEASURED})


def test_a_count_of_zero_namespaces_is_a_setting_not_nesting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "_no_namespaces_at_all", lambda: True)
    assert classify("exceeded (ENOSPC)", 1, BWRAP, 0).code == "namespaces_forbidden"


def test_the_setting_is_read_from_the_kernel() -> None:
    setting = Path("/proc/sys/user/max_user_namespaces").read_text()
    assert refusals._no_namespaces_at_all() is (setting.strip() == "0")


def test_a_program_that_is_there_and_new_enough() -> None:
    check_program(BWRAP)
    assert check_version(BWRAP)[0].isdigit()


def test_missing(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SandboxError) as refusal:
            check_program(path)
        assert refusal.value.code == "bwrap_missing"
    (tmp_path / "plain").touch(mode=0o644)
    with pytest.raises(SandboxError, match="prlimit_missing"):
        check_program(tmp_path / "plain", "prlimit_missing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make such files")
@pytest.mark.parametrize(
    ("mode", "owner", "code"),
    [
        (0o4755, 0, "bwrap_setuid"),
        (0o2755, 0, "bwrap_setuid"),
        (0o755, 12345, "bwrap_untrusted"),
        (0o775, 0, "bwrap_untrusted"),
        (0o757, 0, "bwrap_untrusted"),
    ],
)
def test_a_program_that_cannot_be_trusted(tmp_path: Path, mode: int, owner: int, code: str) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    program = tmp_path / "closed/bwrap"
    shutil.copy(BWRAP, program)
    os.chown(program, owner, owner)
    program.chmod(mode)
    with pytest.raises(SandboxError) as refusal:
        check_program(program)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("said", "found"),
    [("bubblewrap 0.4.1", "0.4.1"), ("bubblewrap 0.7.0", "0.7.0"), ("hello", "unknown")],
)
def test_too_old(tmp_path: Path, said: str, found: str) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    with pytest.raises(SandboxError, match=found) as refusal:
        check_version(program)
    assert refusal.value.code == "bwrap_too_old"


def _nested(*outer: str) -> str:
    """What bubblewrap says inside another one, as a user without rights."""
    words = [str(BWRAP), "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", *outer, "--"]
    inner = [str(BWRAP), "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"]
    drop = {"user": 61845, "group": 61845, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [*words, *inner, "--proc", "/proc", "--", "/bin/true"],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **drop,  # type: ignore[call-overload]
    )
    assert done.returncode != 0
    return str(done.stderr)


def test_for_real_inside_a_sandbox_that_allows_no_further_one() -> None:
    said = _nested("--proc", "/proc", "--disable-userns")
    assert classify(said, 1, BWRAP, 61845).code == "namespaces_nested_too_deep"


def test_for_real_inside_a_container_that_masks_proc() -> None:
    said = _nested("--proc", "/proc", "--ro-bind", "/dev/null", "/proc/version")
    assert classify(said, 1, BWRAP, 61845).code == "proc_masked"


def test_for_real_where_overflowuid_is_hidden() -> None:
    said = _nested("--dev", "/dev", "--tmpfs", "/proc")
    assert classify(said, 1, BWRAP, 61845).code == "overflowuid_unreadable"
