"""Hands the letters of the outbox to an SMTP server, while the coordinator serves.

Owns: the connection to the server, and what its answers mean for a letter. Must not: write letters.

A server that is away delays letters and nothing else. What it refuses for good (5xx) is dropped and
logged by number: the log holds no mail address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Final, Protocol, TypeVar

import aiosmtplib

from gpugoblin.clock import Clock
from server_stub.coordinator.mail import outbox
from server_stub.coordinator.mail.outbox import Letter
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store import Transaction

__all__ = ["Post", "message_of"]

R = TypeVar("R")

LOOK_S: Final = 2.0
"""Time between two looks at the outbox."""

AT_ONCE: Final = 50
SMTP_S: Final = 20.0

_log = logging.getLogger("gpugoblin.coordinator.mail")


class Transact(Protocol):
    """Runs work in a transaction, as `Service.transact` does."""

    async def __call__(self, work: Callable[[Transaction], R], /) -> R: ...


class Post:
    """The loop that empties the outbox. `run` ends when it is cancelled."""

    def __init__(self, settings: Settings, clock: Clock, transact: Transact) -> None:
        self._settings = settings
        self._clock = clock
        self._transact = transact

    async def run(self) -> None:
        while True:
            try:
                await self.empty()
            except Exception:  # a defect here must not end the letters of everybody
                _log.exception("the outbox could not be emptied")
            await asyncio.sleep(LOOK_S)

    async def empty(self) -> int:
        """Sends what is due; how many letters a server took."""
        now_s = self._clock.wall_s()
        letters = await self._transact(lambda tx: _take(tx, now_s))
        if not letters:
            return 0
        try:
            server = await self._connect()
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as cause:
            _log.warning("the mail server cannot be reached: %s", type(cause).__name__)
            await self._transact(lambda tx: _put_off(tx, now_s, letters))
            return 0
        taken = 0
        try:
            for letter in letters:
                taken += await self._send(server, letter)
        finally:
            await _quit(server)
        return taken

    async def _connect(self) -> aiosmtplib.SMTP:
        settings = self._settings
        server = aiosmtplib.SMTP(
            hostname=settings.mail_host,
            port=settings.mail_port,
            use_tls=settings.mail_tls == "tls",
            start_tls=settings.mail_tls == "starttls",
            timeout=SMTP_S,
        )
        await server.connect()
        if settings.mail_user:
            password = Path(settings.mail_password).read_text(encoding="utf-8").strip()
            await server.login(settings.mail_user, password)
        return server

    async def _send(self, server: aiosmtplib.SMTP, letter: Letter) -> int:
        now_s = self._clock.wall_s()
        if not await self._transact(lambda tx: outbox.claim(tx, now_s, letter)):
            return 0  # another server, with the same database, is at it
        try:
            message = message_of(letter, self._settings.mail_from)
            # Named here: read out of the header, a mailbox may come to mean another one.
            await server.send_message(message, recipients=[letter.mailbox])
        except ValueError:  # it cannot be written as a message, today or ever
            _log.warning("letter %d cannot be written", letter.number)
            await self._transact(lambda tx: outbox.sent(tx, letter))
            return 0
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as cause:
            if _is_final(cause):
                _log.warning("letter %d was refused for good", letter.number)
                await self._transact(lambda tx: outbox.sent(tx, letter))
            else:
                _log.warning("letter %d waits: %s", letter.number, type(cause).__name__)
                await self._transact(lambda tx: outbox.put_off(tx, now_s, letter))
            return 0
        await self._transact(lambda tx: outbox.sent(tx, letter))
        return 1


def message_of(letter: Letter, sender: str) -> EmailMessage:
    """A letter as it travels. Programs that answer by themselves are asked not to (RFC 3834)."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = letter.mailbox
    message["Subject"] = letter.subject
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2] or "localhost")
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.words)
    return message


def _take(tx: Transaction, now_s: float) -> list[Letter]:
    lost = outbox.given_up(tx, now_s)
    if lost:
        _log.warning("%d letters were given up: no server took them in time", lost)
    return outbox.due(tx, now_s, AT_ONCE)


def _put_off(tx: Transaction, now_s: float, letters: list[Letter]) -> None:
    for letter in letters:
        outbox.put_off(tx, now_s, letter)


async def _quit(server: aiosmtplib.SMTP) -> None:
    try:
        await server.quit()
    except (aiosmtplib.SMTPException, OSError, TimeoutError):
        server.close()


def _is_final(cause: BaseException) -> bool:
    """Whether a server said that this letter will never be taken (RFC 5321: 5xx)."""
    if isinstance(cause, aiosmtplib.SMTPRecipientsRefused):
        return all(500 <= one.code < 600 for one in cause.recipients)
    return isinstance(cause, aiosmtplib.SMTPResponseException) and 500 <= cause.code < 600
