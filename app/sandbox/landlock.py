"""Landlock: the process gives up access to files, network and foreign signals for good.

Owns: the ABI probe, the rights each ABI knows (Linux `landlock.h`) and the loading of a ruleset
into the own thread. Must not: import anything but the standard library: this runs inside the
engine, and before NumPy, because a ruleset reaches only threads made after it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.sandbox.syscalls import NUMBERS

__all__ = [
    "DEVICE_COMMANDS",
    "READ_DIRECTORY",
    "READ_FILE",
    "WRITE_FILE",
    "PathRule",
    "abi",
    "handled",
    "restrict",
]

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIRECTORY: Final = 1 << 3
DEVICE_COMMANDS: Final = 1 << 15

_FILE_RIGHTS: Final = (
    (1, (1 << 13) - 1),  # execute, write, read, list, remove, make of every kind
    (2, 1 << 13),  # refer: links and renames across directories
    (3, 1 << 14),  # truncate
    (5, 1 << 15),  # ioctl on devices
)
_NETWORK_RIGHTS: Final = ((4, 0b11),)  # TCP bind and connect
_SCOPES: Final = ((6, 0b11),)  # abstract sockets, signals

_NO_NEW_PRIVS: Final = 38
_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1


@dataclass(frozen=True, slots=True)
class PathRule:
    """What stays allowed at `path` and beneath it."""

    path: str
    rights: int


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def abi() -> int:
    """The Landlock ABI of the running kernel; 0 where it is missing or switched off."""
    answer = _libc().syscall(
        ctypes.c_long(NUMBERS["landlock_create_ruleset"]),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint(_VERSION_FLAG),
    )
    return max(0, int(answer))


def handled(version: int) -> tuple[int, int, int]:
    """All file rights, network rights and scopes that this ABI can take away."""

    def known(table: Sequence[tuple[int, int]]) -> int:
        return sum(bits for since, bits in table if version >= since)

    return known(_FILE_RIGHTS), known(_NETWORK_RIGHTS), known(_SCOPES)


def _attribute(version: int) -> bytes:
    files, network, scopes = handled(version)
    # The struct grew with the ABI; an old kernel refuses bytes that it does not know.
    if version >= 6:
        return struct.pack("<QQQ", files, network, scopes)
    if version >= 4:
        return struct.pack("<QQ", files, network)
    return struct.pack("<Q", files)


def _checked(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


def _add(libc: ctypes.CDLL, ruleset: int, rule: PathRule, files: int) -> None:
    descriptor = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = struct.pack("<Qi", rule.rights & files, descriptor)
        buffer = ctypes.create_string_buffer(beneath, len(beneath))
        _checked(
            libc.syscall(
                ctypes.c_long(NUMBERS["landlock_add_rule"]),
                ctypes.c_int(ruleset),
                ctypes.c_int(_RULE_PATH_BENEATH),
                buffer,
                ctypes.c_uint(0),
            ),
            f"landlock_add_rule {rule.path}",
        )
    finally:
        os.close(descriptor)


def restrict(rules: Sequence[PathRule]) -> int:
    """Gives up everything that Landlock handles, except `rules`; a path that is missing is skipped.

    Returns:
        The ABI that was used; 0 if the kernel has no Landlock, and then nothing was given up.

    Raises:
        OSError: the kernel has Landlock but refused a step.
    """
    version = abi()
    if version == 0:
        return 0
    libc = _libc()
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    attribute = _attribute(version)
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    ruleset = _checked(
        libc.syscall(
            ctypes.c_long(NUMBERS["landlock_create_ruleset"]),
            buffer,
            ctypes.c_size_t(len(attribute)),
            ctypes.c_uint(0),
        ),
        "landlock_create_ruleset",
    )
    try:
        files, _, _ = handled(version)
        for rule in rules:
            if os.path.lexists(rule.path):
                _add(libc, ruleset, rule, files)
        _checked(
            libc.syscall(
                ctypes.c_long(NUMBERS["landlock_restrict_self"]),
                ctypes.c_int(ruleset),
                ctypes.c_uint(0),
            ),
            "landlock_restrict_self",
        )
    finally:
        os.close(ruleset)
    return version
