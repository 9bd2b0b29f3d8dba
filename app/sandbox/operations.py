"""The steps of building a sandbox as data, each with its words for bubblewrap.

Owns: the kinds of step, as frozen values. Must not: choose them (`bwrap.py` does) or run anything.
Order matters: bubblewrap carries out file-system steps in the order of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ClearEnvironment",
    "DeviceBind",
    "Directory",
    "DropCapabilities",
    "Flag",
    "Identity",
    "Operation",
    "Proc",
    "ReadOnlyBind",
    "RemountReadOnly",
    "SeccompFrom",
    "SetEnvironment",
    "StatusTo",
    "Symlink",
    "Tmpfs",
    "WorkIn",
    "arguments",
]


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch without a value: a namespace, or a rule about the process."""

    name: Literal[
        "unshare-user",
        "unshare-ipc",
        "unshare-pid",
        "unshare-net",
        "unshare-uts",
        "unshare-cgroup-try",
        "disable-userns",
        "assert-userns-disabled",
        "die-with-parent",
        "new-session",
    ]

    def words(self) -> tuple[str, ...]:
        return (f"--{self.name}",)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the process is inside."""

    uid: int
    gid: int
    hostname: str

    def words(self) -> tuple[str, ...]:
        return (
            *("--uid", str(self.uid)),
            *("--gid", str(self.gid)),
            *("--hostname", self.hostname),
        )


@dataclass(frozen=True, slots=True)
class DropCapabilities:
    """All of them, from the bounding set too."""

    def words(self) -> tuple[str, ...]:
        return ("--cap-drop", "ALL")


@dataclass(frozen=True, slots=True)
class ClearEnvironment:
    """Only what is set after this is there inside."""

    def words(self) -> tuple[str, ...]:
        return ("--clearenv",)


@dataclass(frozen=True, slots=True)
class SetEnvironment:
    """One variable."""

    name: str
    value: str

    def words(self) -> tuple[str, ...]:
        return ("--setenv", self.name, self.value)


@dataclass(frozen=True, slots=True)
class ReadOnlyBind:
    """Shows a file or directory of the host; devices beneath it do not open."""

    source: str
    target: str

    def words(self) -> tuple[str, ...]:
        return ("--ro-bind", self.source, self.target)


@dataclass(frozen=True, slots=True)
class DeviceBind:
    """Shows one device node."""

    path: str

    def words(self) -> tuple[str, ...]:
        return ("--dev-bind", self.path, self.path)


@dataclass(frozen=True, slots=True)
class Symlink:
    """`target` becomes a link that says `points_to`."""

    points_to: str
    target: str

    def words(self) -> tuple[str, ...]:
        return ("--symlink", self.points_to, self.target)


@dataclass(frozen=True, slots=True)
class Directory:
    """An empty directory."""

    path: str

    def words(self) -> tuple[str, ...]:
        return ("--dir", self.path)


@dataclass(frozen=True, slots=True)
class Proc:
    """The namespace's own /proc."""

    path: str

    def words(self) -> tuple[str, ...]:
        return ("--proc", self.path)


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """Memory as a file system, with an upper size: bubblewrap's default has none."""

    path: str
    size_bytes: int
    mode: int | None = None

    def words(self) -> tuple[str, ...]:
        permissions = () if self.mode is None else ("--perms", f"{self.mode:04o}")
        return (*permissions, "--size", str(self.size_bytes), "--tmpfs", self.path)


@dataclass(frozen=True, slots=True)
class RemountReadOnly:
    """Closes one mount for writing; device nodes on it still open."""

    path: str

    def words(self) -> tuple[str, ...]:
        return ("--remount-ro", self.path)


@dataclass(frozen=True, slots=True)
class WorkIn:
    """The working directory."""

    path: str

    def words(self) -> tuple[str, ...]:
        return ("--chdir", self.path)


@dataclass(frozen=True, slots=True)
class SeccompFrom:
    """A descriptor that holds the first filter."""

    descriptor: int

    def words(self) -> tuple[str, ...]:
        return ("--seccomp", str(self.descriptor))


@dataclass(frozen=True, slots=True)
class StatusTo:
    """A descriptor that gets process ids and the exit status as JSON."""

    descriptor: int

    def words(self) -> tuple[str, ...]:
        return ("--json-status-fd", str(self.descriptor))


Operation = (
    Flag
    | Identity
    | DropCapabilities
    | ClearEnvironment
    | SetEnvironment
    | ReadOnlyBind
    | DeviceBind
    | Symlink
    | Directory
    | Proc
    | Tmpfs
    | RemountReadOnly
    | WorkIn
    | SeccompFrom
    | StatusTo
)


def arguments(operations: Iterable[Operation]) -> list[str]:
    """The words of all steps, in order."""
    return [word for operation in operations for word in operation.words()]
