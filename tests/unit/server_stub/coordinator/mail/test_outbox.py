"""Letters wait, are tried again ever more rarely, and are given up."""

from __future__ import annotations

from server_stub.coordinator.mail import outbox
from tests.helpers.coordinator import Desk


def test_a_letter_is_due_at_once_and_gone_when_sent(desk: Desk) -> None:
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "subject", "words")
    (letter,) = outbox.due(desk.tx, desk.now_s, 10)
    assert (letter.mailbox, letter.subject, letter.words) == ("ann@example.org", "subject", "words")
    outbox.sent(desk.tx, letter)
    assert outbox.waiting(desk.tx) == 0


def test_a_letter_that_failed_waits_longer_each_time(desk: Desk) -> None:
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "subject", "words")
    waits = []
    for _ in range(12):
        (letter,) = outbox.due(desk.tx, desk.now_s, 10)
        outbox.put_off(desk.tx, desk.now_s, letter)
        row = desk.tx.row("SELECT due_s FROM mail")
        assert row is not None
        waits.append(row[0] - desk.now_s)
        desk.now_s = row[0]
    assert waits == sorted(waits)
    assert waits[0] == outbox.FIRST_RETRY_S
    assert waits[-1] == outbox.LONGEST_RETRY_S


def test_a_letter_ends(desk: Desk) -> None:
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "subject", "words", keep_s=600.0)
    outbox.queue(desk.tx, desk.now_s, "bob@example.org", "subject", "words")
    desk.now_s += 601.0
    assert [one.mailbox for one in outbox.due(desk.tx, desk.now_s, 10)] == ["bob@example.org"]
    assert outbox.given_up(desk.tx, desk.now_s) == 1
    assert outbox.waiting(desk.tx) == 1


def test_so_many_at_once(desk: Desk) -> None:
    for number in range(5):
        outbox.queue(desk.tx, desk.now_s + number, f"{number}@example.org", "s", "w")
    found = outbox.due(desk.tx, desk.now_s + 10, 3)
    assert [one.mailbox[0] for one in found] == ["0", "1", "2"]


def test_one_server_alone_has_a_letter(desk: Desk) -> None:
    outbox.queue(desk.tx, desk.now_s, "ann@example.org", "subject", "words")
    (letter,) = outbox.due(desk.tx, desk.now_s, 10)
    assert outbox.claim(desk.tx, desk.now_s, letter)
    assert not outbox.claim(desk.tx, desk.now_s, letter)
    assert outbox.due(desk.tx, desk.now_s, 10) == []
    desk.now_s += outbox.CLAIM_S
    assert outbox.due(desk.tx, desk.now_s, 10) == [letter], "the server that had it is gone"
    outbox.sent(desk.tx, letter)
    assert not outbox.claim(desk.tx, desk.now_s, letter), "it was sent"
