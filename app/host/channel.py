"""The control channel: one SOCK_SEQPACKET pair between a parent and its engine.

Owns: the parent's end, sequence numbers of what it sends, and the refusal of anything that is not
one whole datagram without descriptors. Must not: know the order of messages.

Reading gives the kernel no room for descriptors, so an engine that sends some has them closed by
the kernel and is found out by MSG_CTRUNC.
"""

from __future__ import annotations

import socket

from app.engine.protocol import FRAME_BYTES, Frame, Message, decode, encode
from gpugoblin.errors import EngineError

__all__ = ["Channel"]


class Channel:
    """The parent's end. The engine's end is `engine_fd` until `forget_engine_end`."""

    def __init__(self) -> None:
        self._own, self._other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._own.setblocking(False)
        self._sequence = 0

    @property
    def engine_fd(self) -> int:
        return self._other.fileno()

    def forget_engine_end(self) -> None:
        """Closes the engine's end here, once the engine has its own copy."""
        self._other.close()

    def fileno(self) -> int:
        return self._own.fileno()

    def send(self, message: Message, task: int = 0) -> bool:
        """Sends a message; False when the engine's end is gone or has left its queue full.

        Raises:
            EngineError: `engine_message_too_large`; nothing was sent.
        """
        datagram = encode(message, self._sequence, task)
        try:
            self._own.send(datagram)
        except (BlockingIOError, ConnectionError):
            return False
        self._sequence += 1
        return True

    def receive(self) -> Frame | None:
        """The next message; None when there is none now.

        Raises:
            EOFError: the engine's end is closed.
            EngineError: `engine_lied` for what is too large, carries descriptors or is malformed.
        """
        try:
            datagram, _, flags, _ = self._own.recvmsg(FRAME_BYTES, 0)
        except BlockingIOError:
            return None
        except ConnectionError as cause:
            raise EOFError("the engine's end is gone") from cause
        if flags & socket.MSG_TRUNC:
            raise EngineError("engine_lied", reason=f"a message of over {FRAME_BYTES} bytes")
        if flags & socket.MSG_CTRUNC:
            raise EngineError("engine_lied", reason="it sent descriptors")
        if not datagram:
            raise EOFError("the engine's end is closed")
        try:
            return decode(datagram)
        except EngineError as cause:
            raise EngineError("engine_lied", reason=cause.what) from cause

    def close(self) -> None:
        self._own.close()
        self._other.close()
