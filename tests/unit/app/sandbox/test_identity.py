"""Who an engine becomes, and what that user can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.sandbox import identity
from app.sandbox.identity import ENGINE_UID, Drop, drop_for, first_closed_part
from gpugoblin.errors import SandboxError

ALL = 2**41 - 1


def test_an_ordinary_user_stays_himself() -> None:
    assert drop_for(1000) is None


@pytest.mark.parametrize(
    ("capabilities", "reason"),
    [
        (0, "CAP_SETUID and CAP_SETGID"),
        (ALL ^ 1 << 7, "CAP_SETUID"),
        (ALL ^ 1 << 6, "CAP_SETGID"),
    ],
)
def test_a_root_that_cannot_change_users_is_refused(capabilities: int, reason: str) -> None:
    with pytest.raises(SandboxError, match=f"it lacks {reason}$|it lacks {reason}\\.") as refusal:
        drop_for(0, lambda: capabilities)
    assert refusal.value.code == "drop_impossible"


def test_root_takes_the_fixed_user_where_none_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "ENGINE_USER", "gg-no-such-user")
    made: list[int] = []
    assert drop_for(0, lambda: ALL, lambda: made.append(1)) == Drop(ENGINE_UID, ENGINE_UID)
    assert made == [1]


def test_root_takes_a_known_user_without_making_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "ENGINE_USER", "nobody")

    def never() -> None:
        raise AssertionError("it was there")

    drop = drop_for(0, lambda: ALL, never)
    assert drop is not None
    assert drop.uid != 0


def test_a_user_that_is_root_by_another_name_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "ENGINE_USER", "root")
    assert drop_for(0, lambda: ALL, lambda: None) == Drop(ENGINE_UID, ENGINE_UID)


def test_uppermost_closed_directory_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    deep = closed / "deep"
    deep.mkdir(parents=True)
    for part in (tmp_path, deep):
        part.chmod(0o755)
    closed.chmod(0o700)
    stranger = Drop(os.geteuid() + 12345, os.getegid() + 12345)
    blocked = first_closed_part(deep, stranger)
    assert blocked in (closed, *tmp_path.parents)  # pytest's own directories are closed too
    assert first_closed_part(Path("/usr/bin"), stranger) is None


def test_owner_group_and_others_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    status = file.stat()
    for mode, owner, group, others in ((0o400, 1, 0, 0), (0o040, 0, 1, 0), (0o004, 0, 0, 1)):
        file.chmod(mode)
        seen = file.stat()
        far = status.st_uid + 1
        assert identity._may(seen, Drop(status.st_uid, 0), 4) is bool(owner)
        assert identity._may(seen, Drop(far, status.st_gid), 4) is bool(group)
        assert identity._may(seen, Drop(far, status.st_gid + 1), 4) is bool(others)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops")
def test_capabilities_are_read_from_the_kernel() -> None:
    assert identity._effective_capabilities() >> 7 & 1
