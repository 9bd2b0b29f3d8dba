"""What must not leave the machine in a log."""

from __future__ import annotations

import pytest

from app.control.redact import redacted


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "A lab at https://lab.example.org:8441/v1 is away",
            "A lab at https://<address>/v1 is away",
        ),
        ("peer 192.168.1.20:99 closed", "peer <address> closed"),
        ("peer 2001:db8::1 closed", "peer <address> closed"),
        ("peer fe80::1:2 closed", "peer <address> closed"),
        ("The file /home/erika/.local/x is", "The file /home/<user>/.local/x is"),
        ("The file /root/x is", "The file <home>/x is"),
        ("ticket eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.c2ln is over", "ticket <token> is over"),
        ("token=abc123", "token=<token>"),
        ("mail to owner@example.org", "mail to <mail>"),
        ("key " + "a1" * 32, "key <token>"),
        ("12:03:04  Card 0: lending until 22:00:00.", "12:03:04  Card 0: lending until 22:00:00."),
        ("Card 0: granted to a lab for 59 min 59 s.", "Card 0: granted to a lab for 59 min 59 s."),
    ],
)
def test_lines(line: str, shown: str) -> None:
    assert redacted(line) == shown
