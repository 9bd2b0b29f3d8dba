"""The control socket's place, however long its path is.

Owns: binding and connecting below a directory descriptor, since a Unix socket's own path may have
107 bytes only. Must not: read or write.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["SOCKET_NAME", "peer_groups", "peer_user", "socket_path"]

SOCKET_NAME: Final = "control.sock"
_SO_PEERGROUPS: Final = 59
_GROUPS_BYTES: Final = 4 * 1024


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """A short path of the socket in `directory`, good inside the block.

    Raises:
        OSError: the directory is not there or closed.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(found[4:8], "little", signed=True)


def peer_groups(connection: socket.socket) -> frozenset[int]:
    """The group ids of the process at the other end, its own and the supplementary ones."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        found = b""  # more groups than that: only its own counts
    numbers = (*memoryview(found[: len(found) // 4 * 4]).cast("I"),)
    return frozenset({int.from_bytes(credentials[8:12], "little"), *numbers})
