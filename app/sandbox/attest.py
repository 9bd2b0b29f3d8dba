"""What the parent sees of an engine from outside, and whether that is a walled process.

Owns: the examination through /proc and the list of what must hold. Must not: believe the engine.
A reading (`look`) and a judgment (`mismatches`), so that every rule can be proven without one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.sandbox.bwrap import DEVICES, INSIDE_ROOT
from app.sandbox.limits import wrong_limits
from app.sandbox.spec import NO_CARD, CardAccess, Level

__all__ = ["Attestation", "Expectation", "Sight", "look", "mismatches", "own_namespaces"]

NAMESPACES: Final = ("user", "pid", "net", "ipc", "uts", "mnt")
"""`cgroup` is made where the kernel can, and not counted on."""

_CAPABILITIES: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_DESCRIPTOR_KINDS: Final = re.compile(
    r"/dev/(null|urandom)|pipe:\[\d+\]|anon_inode:\[(eventfd|eventpoll)\]|/proc/\d+/.*|/runtime/.*"
)
_MOUNTS: Final = frozenset(
    ("/", INSIDE_ROOT, "/sys/devices/system/cpu", "/proc", "/dev", *DEVICES, "/tmp")  # noqa: S108
)


@dataclass(frozen=True, slots=True)
class Sight:
    """What /proc says of one process.

    Args:
        status: fields of `status`. namespaces: target of each link in `ns`.
        descriptors: target of each link in `fd`.
        mounts: mount point -> (file system, its options), from `mountinfo`.
        limits: text of `limits`. children: processes whose parent it is.
    """

    status: Mapping[str, str]
    namespaces: Mapping[str, str]
    descriptors: Mapping[int, str]
    mounts: Mapping[str, tuple[str, frozenset[str]]]
    limits: str
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold for one engine.

    Args:
        level: `full` or `reduced`.
        descriptors: the targets that the engine was given (channel and arenas), each once.
        outside: namespaces of the parent, none of which may be the engine's.
        filters: how many seccomp filters are on it by now.
        uid: whose process it is on the host.
        memory_bytes: its limit.
        card: what it was shown of a card.
    """

    level: Level
    descriptors: tuple[str, ...]
    outside: Mapping[str, str]
    filters: int
    uid: int
    memory_bytes: int
    card: CardAccess = NO_CARD


@dataclass(frozen=True, slots=True)
class Attestation:
    """Proof that an engine was examined and found walled in."""

    level: Level
    engine_pid: int
    cgroup: bool


def own_namespaces() -> dict[str, str]:
    """The links of this process."""
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}


def _mounts(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        found[fields[4]] = (right.split()[0], frozenset(fields[5].split(",")))
    return found


def _descriptors(directory: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir(directory):
        try:
            found[int(name)] = os.readlink(directory / name)
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def look(pid: int) -> Sight:
    """Reads everything at once, in about half a millisecond.

    Raises:
        OSError: the process has ended, or hides itself from us.
    """
    place = Path("/proc") / str(pid)
    status: dict[str, str] = {}
    for line in (place / "status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        status[name] = value.strip()
    children = (place / "task" / str(pid) / "children").read_text(encoding="ascii")
    return Sight(
        status=status,
        namespaces={name: os.readlink(place / "ns" / name) for name in NAMESPACES},
        descriptors=_descriptors(place / "fd"),
        mounts=_mounts((place / "mountinfo").read_text(encoding="utf-8")),
        limits=(place / "limits").read_text(encoding="ascii"),
        children=tuple(int(child) for child in children.split()),
    )


def _wrong_status(status: Mapping[str, str], expected: Expectation) -> list[str]:
    wrong: list[str] = []
    wished = {"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": str(expected.filters)}
    wrong += [
        f"{name} is {status.get(name, 'missing')}, not {value}"
        for name, value in wished.items()
        if status.get(name) != value
    ]
    # At the level `reduced` the bounding set stays; no_new_privs makes it worthless.
    for name in _CAPABILITIES if expected.level == "full" else _CAPABILITIES[:3]:
        if int(status.get(name, "1"), 16):
            wrong.append(f"{name} is {status.get(name, 'missing')}, not 0")
    if status.get("Uid", "").split() != [str(expected.uid)] * 4:
        wrong.append(f"Uid is {status.get('Uid', 'missing')}, not {expected.uid}")
    if expected.level == "full" and len(status.get("NSpid", "").split()) < 2:
        wrong.append("it shares the host's process ids")
    return wrong


def _wrong_descriptors(sight: Sight, expected: Expectation) -> list[str]:
    rest = list(expected.descriptors)
    wrong: list[str] = []
    for number, target in sorted(sight.descriptors.items()):
        if target in rest:
            rest.remove(target)
        elif target not in expected.card.nodes and not _DESCRIPTOR_KINDS.fullmatch(target):
            wrong.append(f"descriptor {number} is {target}")
    return wrong


def _wrong_mounts(sight: Sight, masked: frozenset[str], card: CardAccess) -> list[str]:
    shown = tuple(path for path in card.shown if path.startswith("/sys/"))
    wished = _MOUNTS.union(card.nodes, shown)
    wrong = [f"{point} is mounted" for point in sorted(set(sight.mounts) - wished - masked)]
    wrong += [f"{point} is not mounted" for point in sorted(wished - set(sight.mounts))]
    for point in ("/", INSIDE_ROOT, "/dev", "/sys/devices/system/cpu", *shown):
        if point in sight.mounts and "ro" not in sight.mounts[point][1]:
            wrong.append(f"{point} is writable")
    for point in ("/dev", "/tmp", "/"):  # noqa: S108
        if point in sight.mounts and sight.mounts[point][0] != "tmpfs":
            wrong.append(f"{point} is the host's")
    return wrong


def mismatches(sight: Sight, expected: Expectation, masked: frozenset[str]) -> list[str]:
    """Everything in which the process is not what it must be; empty when it is walled in.

    Args:
        masked: host files that are covered, each a mount point of its own.
    """
    wrong = _wrong_status(sight.status, expected)
    wrong += _wrong_descriptors(sight, expected)
    wrong += wrong_limits(sight.limits, expected.memory_bytes)
    if sight.children:
        wrong.append(f"it has children: {sight.children}")
    if expected.level == "full":
        wrong += [
            f"it is in the parent's {name} namespace"
            for name in NAMESPACES
            if sight.namespaces.get(name) in (None, expected.outside.get(name))
        ]
        wrong += _wrong_mounts(sight, masked, expected.card)
    return wrong
