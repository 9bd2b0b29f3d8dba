"""Letters reach a real SMTP server on the loopback, and survive one that is away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from server_stub.coordinator.mail import outbox
from server_stub.coordinator.mail.outbox import Letter
from server_stub.coordinator.mail.post import Post, message_of
from server_stub.coordinator.store import Transaction
from tests.helpers.coordinator import Desk, settings
from tests.helpers.coordinator_front import SetClock
from tests.helpers.mailbox import Mailboxes

R = TypeVar("R")


@pytest.fixture
def boxes() -> Iterator[Mailboxes]:
    with Mailboxes() as found:
        yield found


def post(desk: Desk, port: int) -> Post:
    chosen = settings(
        mail_host="127.0.0.1", mail_port=port, mail_tls="off", mail_from="g@example.org"
    )

    async def transact(work: Callable[[Transaction], R]) -> R:
        return work(desk.tx)

    return Post(chosen, SetClock(desk.now_s), transact)


def test_letters_arrive_once(desk: Desk, boxes: Mailboxes) -> None:
    for name in ("ann", "bob"):
        outbox.queue(desk.tx, desk.now_s, f"{name}@example.org", "Ein Würfel", "Grüße\nvon uns\n")
    assert asyncio.run(post(desk, boxes.port).empty()) == 2
    assert asyncio.run(post(desk, boxes.port).empty()) == 0
    assert [to for to, _ in boxes.letters] == ["ann@example.org", "bob@example.org"]
    letter = boxes.letters[0][1]
    assert letter["Subject"] == "Ein Würfel"
    assert letter.get_content().replace("\r\n", "\n") == "Grüße\nvon uns\n"
    assert letter["Auto-Submitted"] == "auto-generated"


def test_a_server_that_is_away_delays_letters(desk: Desk) -> None:
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "s", "w")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert asyncio.run(post(desk, port).empty()) == 0
    assert outbox.waiting(desk.tx) == 1
    assert outbox.due(desk.tx, desk.now_s, 10) == []


def test_a_letter_refused_for_good_is_dropped_and_the_others_go(
    desk: Desk, boxes: Mailboxes
) -> None:
    boxes.refuses = {"gone@example.org": "550 no such user", "later@example.org": "450 try later"}
    for name in ("gone", "later", "ann"):
        outbox.queue(desk.tx, desk.now_s, f"{name}@example.org", "s", "w")
    assert asyncio.run(post(desk, boxes.port).empty()) == 1
    left = desk.tx.rows("SELECT mailbox FROM mail")
    assert left == [("later@example.org",)]


def test_a_letter_cannot_add_headers() -> None:
    with pytest.raises(ValueError, match=r"linefeed|newline|return"):
        message_of(Letter(1, "ann@x.org", "s\nBcc: all@x.org", "w", 0), "g@x.org")


def test_a_letter_that_cannot_be_written_does_not_stop_the_others(
    desk: Desk, boxes: Mailboxes
) -> None:
    outbox.queue(desk.tx, desk.now_s, "bob@example.org", "two\nlines", "w")
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "s", "w")
    assert asyncio.run(post(desk, boxes.port).empty()) == 1
    assert [to for to, _ in boxes.letters] == ["ann@example.org"]
    assert outbox.waiting(desk.tx) == 0


def test_two_servers_send_a_letter_once(desk: Desk, boxes: Mailboxes) -> None:
    for number in range(6):
        outbox.queue(desk.tx, desk.now_s, f"ann-{number}@example.org", "s", "w")

    async def both() -> list[int]:
        return await asyncio.gather(post(desk, boxes.port).empty(), post(desk, boxes.port).empty())

    assert sum(asyncio.run(both())) == 6
    assert len(boxes.letters) == 6
