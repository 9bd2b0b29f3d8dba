"""Every kind of step and its words."""

from __future__ import annotations

import pytest

from app.sandbox import operations as op


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (op.Flag("unshare-net"), ["--unshare-net"]),
        (
            op.Identity(1, 2, "name"),
            ["--uid", "1", "--gid", "2", "--hostname", "name"],
        ),
        (op.DropCapabilities(), ["--cap-drop", "ALL"]),
        (op.ClearEnvironment(), ["--clearenv"]),
        (op.SetEnvironment("A", "b c"), ["--setenv", "A", "b c"]),
        (op.ReadOnlyBind("/a", "/b"), ["--ro-bind", "/a", "/b"]),
        (op.DeviceBind("/dev/null"), ["--dev-bind", "/dev/null", "/dev/null"]),
        (op.Symlink("to", "/at"), ["--symlink", "to", "/at"]),
        (op.Directory("/d"), ["--dir", "/d"]),
        (op.Proc("/proc"), ["--proc", "/proc"]),
        (op.Tmpfs("/t", 4096), ["--size", "4096", "--tmpfs", "/t"]),
        (
            op.Tmpfs("/t", 4096, 0o700),
            ["--perms", "0700", "--size", "4096", "--tmpfs", "/t"],
        ),
        (op.RemountReadOnly("/"), ["--remount-ro", "/"]),
        (op.WorkIn("/t"), ["--chdir", "/t"]),
        (op.SeccompFrom(7), ["--seccomp", "7"]),
        (op.StatusTo(8), ["--json-status-fd", "8"]),
    ],
)
def test_words_of_one_step(operation: op.Operation, words: list[str]) -> None:
    assert op.arguments([operation]) == words


def test_order_is_kept() -> None:
    steps = [op.Proc("/proc"), op.RemountReadOnly("/"), op.WorkIn("/")]
    assert op.arguments(steps) == ["--proc", "/proc", "--remount-ro", "/", "--chdir", "/"]
