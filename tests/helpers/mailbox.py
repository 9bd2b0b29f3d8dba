"""A mail server on the loopback that keeps what it is given.

Owns: `Mailboxes`, an SMTP server in a thread of its own.
"""

from __future__ import annotations

import re
import socket
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller

__all__ = ["Mailboxes"]


class Mailboxes:
    """Takes letters for everybody; `refuses` holds answers for those that it does not take."""

    def __init__(self) -> None:
        self.refuses: dict[str, str] = {}
        self.letters: list[tuple[str, EmailMessage]] = []
        self._arrived = threading.Condition()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)

    def __enter__(self) -> Mailboxes:
        self._controller.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._controller.stop()

    def code(self, mailbox: str, limit_s: float = 20.0) -> str:
        """The code of the next letter to this mailbox, which is then taken out."""
        with self._arrived:
            found = self._arrived.wait_for(lambda: self._take(mailbox), limit_s)
        if not found:
            raise AssertionError(f"no letter for {mailbox} came within {limit_s} s")
        digits = re.search(r"\d{4} \d{4}", found["Subject"])
        if digits is None:
            raise AssertionError(f"no code in {found['Subject']!r}")
        return digits[0]

    def _take(self, mailbox: str) -> EmailMessage | None:
        for place, (to, letter) in enumerate(self.letters):
            if to == mailbox and re.search(r"\d{4} \d{4}", letter["Subject"]):
                del self.letters[place]
                return letter
        return None

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        letter = message_from_bytes(envelope.content, policy=policy.default)
        if not isinstance(letter, EmailMessage):
            raise TypeError("not a letter")
        with self._arrived:
            self.letters.append((envelope.rcpt_tos[0], letter))
            self._arrived.notify_all()
        return "250 OK"
