"""Control groups, on directories that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sandbox.cgroups import Group, delegated_group, limited_group, user_scope
from gpugoblin.units import MIB

WANTED = 300 * MIB + 123
PAGES = 300 * MIB


@pytest.fixture
def root(tmp_path: Path) -> Path:
    service = tmp_path / "cg/system.slice/gpugoblin.service"
    (service / "main").mkdir(parents=True)
    (service / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return tmp_path / "cg"


OWN = "1:name=systemd:/\n0::/system.slice/gpugoblin.service/main\n"


def _user_session(tmp_path: Path, controllers: str = "memory pids") -> dict[str, Path]:
    manager = tmp_path / "cg/user.slice/user-1000.slice/user@1000.service"
    manager.mkdir(parents=True)
    (manager / "cgroup.subtree_control").write_text(controllers)
    (tmp_path / "run/1000/systemd").mkdir(parents=True)
    (tmp_path / "run/1000/systemd/private").touch()
    (tmp_path / "systemd-run").touch()
    return {
        "root": tmp_path / "cg",
        "runtime_dirs": tmp_path / "run",
        "systemd_run": tmp_path / "systemd-run",
    }


def test_a_session_that_may_limit_memory_gives_a_scope(tmp_path: Path) -> None:
    places = _user_session(tmp_path)
    scope = user_scope(1000, WANTED, **places)
    assert scope is not None
    assert scope.words[:5] == (
        str(places["systemd_run"]),
        "--user",
        "--scope",
        "--quiet",
        "--collect",
    )
    assert f"MemoryMax={PAGES}" in scope.words
    assert "MemorySwapMax=0" in scope.words
    assert scope.words[-3:] == ("--", "/usr/bin/env", "-i")
    assert scope.environment == {"XDG_RUNTIME_DIR": str(tmp_path / "run/1000")}


def test_no_scope_without_controller_manager_or_program(tmp_path: Path) -> None:
    for lack in ("controller", "manager", "program"):
        places = _user_session(tmp_path / lack, "cpu" if lack == "controller" else "memory")
        if lack == "manager":
            (places["runtime_dirs"] / "1000/systemd/private").unlink()
        if lack == "program":
            places["systemd_run"].unlink()
        assert user_scope(1000, WANTED, **places) is None
    assert user_scope(1001, WANTED, **places) is None


def test_a_group_counts_only_when_its_limit_reads_back(root: Path) -> None:
    group = root / "system.slice/gpugoblin.service/main"
    assert limited_group(OWN, WANTED, root) is None
    (group / "memory.swap.max").write_text("0\n")
    (group / "memory.max").write_text("max\n")
    assert limited_group(OWN, WANTED, root) is None
    (group / "memory.max").write_text(f"{PAGES}\n")
    assert limited_group(OWN, WANTED, root) == Group(group, ours=False)
    assert limited_group("1:memory:/x\n", WANTED, root) is None


def test_a_delegated_tree_gives_a_group_beside_ours(root: Path) -> None:
    group = delegated_group((10, 11), WANTED, root, OWN)
    assert group is not None
    assert group.path == root / "system.slice/gpugoblin.service/engine-11"
    assert (group.path / "memory.max").read_text() == str(PAGES)
    assert (group.path / "memory.swap.max").read_text() == "0"
    assert (group.path / "cgroup.procs").read_text() == "11"
    assert group.ours


def test_no_group_without_delegation(root: Path) -> None:
    assert delegated_group((10,), WANTED, root, "0::/\n") is None
    assert delegated_group((10,), WANTED, root, "7:cpu:/\n") is None
    control = root / "system.slice/gpugoblin.service/cgroup.subtree_control"
    control.write_text("cpu\n")
    assert delegated_group((10,), WANTED, root, OWN) is None
    control.unlink()
    assert delegated_group((10,), WANTED, root, OWN) is None


def test_a_group_that_cannot_be_made_is_none(root: Path) -> None:
    (root / "system.slice/gpugoblin.service/engine-10").touch()
    assert delegated_group((10,), WANTED, root, OWN) is None


def test_own_membership_is_read_from_the_kernel(root: Path) -> None:
    assert delegated_group((10,), WANTED, root) is None


def test_only_our_own_group_is_removed(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for path in (theirs, ours):
        path.mkdir()
    Group(theirs, ours=False).remove()
    assert list(theirs.iterdir()) == []
    Group(ours, ours=True).remove()
    assert (ours / "cgroup.kill").read_text() == "1"
    Group(tmp_path / "gone", ours=True).remove()
