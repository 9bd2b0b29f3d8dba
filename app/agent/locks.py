"""The machine-wide lock of a card: one lending engine a card, whoever started it.

Owns: the lock. Must not: know what an engine is. The lock is an abstract Unix socket: it needs no
file and no rights, works across users, is gone the moment its process is, and says who holds it.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

from gpugoblin.errors import AgentError

__all__ = ["CardLock", "take_card"]

_CREDENTIALS = struct.Struct("3i")


@dataclass(slots=True)
class CardLock:
    """Held until `release`, or until this process ends."""

    _socket: socket.socket | None

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def take_card(identity: str, *, is_shared: bool = False) -> CardLock:
    """Takes the lock of a card.

    Args:
        identity: what names the card on this machine: `cpu`, a UUID or a PCI address.
        is_shared: the owner lets several agents lend this card, so nothing is locked.

    Raises:
        AgentError: `card_taken`, naming the process that lends the card already.
    """
    if is_shared:
        return CardLock(None)
    name = f"\0gpugoblin-card-{identity}"
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(name)
        holder.listen(8)
    except OSError as cause:
        holder.close()
        raise AgentError("card_taken", card=identity, holder=_holder(name)) from cause
    return CardLock(holder)


def _holder(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(0.5)
        try:
            asker.connect(name)
            found = asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return "another process"
    pid, uid, _ = _CREDENTIALS.unpack(found)
    whose = "this user" if uid == os.geteuid() else f"user {uid}"
    return f"process {pid} of {whose}"
