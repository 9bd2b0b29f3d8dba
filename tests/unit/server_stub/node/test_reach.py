"""What a lab is told about being reached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import psutil
import pytest

from gpugoblin.wire.messages.probe import ProbeOutcome, ProbeReply
from server_stub.node import reach
from server_stub.node.settings import parse

__all__: list[str] = []


def reply(outcome: Any) -> ProbeReply:
    return ProbeReply("lab_a", "https://lab.example.org:8441", outcome, 0.5, 1e9, bytes(32))  # type: ignore[arg-type]  # a text for an id


def addresses(monkeypatch: pytest.MonkeyPatch, *given: str) -> None:
    found = {"eth0": [SimpleNamespace(address=each) for each in given]}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)


@pytest.mark.parametrize("outcome", get_args(ProbeOutcome))
def test_every_outcome_says_what_to_do(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses(monkeypatch, "127.0.0.1", "192.168.1.7", "fe80::1%eth0", "00:11:22:33:44:55")
    settings = parse({"state_dir": "/srv/a", "listen_port": 8441})
    good, text = reach.explained(reply(outcome), settings)
    assert good == (outcome == "reached")
    assert "https://lab.example.org:8441" in text
    assert ("behind NAT" in text) == (outcome in ("refused", "timed_out", "unreachable"))
    assert ("TCP port 8441" in text) == ("behind NAT" in text)
    assert ("listen_host is 127.0.0.1" in text) == (outcome != "reached")


def test_nat_and_listening_are_named_only_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = parse({"state_dir": "/srv/a", "listen_port": 8441, "listen_host": "0.0.0.0"})  # noqa: S104 - not bound
    addresses(monkeypatch, "10.0.0.1", "8.8.8.8")
    assert not reach.is_behind_nat()
    text = reach.explained(reply("refused"), settings)[1]
    assert "NAT" not in text
    assert "listen_host" not in text
    addresses(monkeypatch, "10.0.0.1", "2001:4860:4860::8888")
    assert not reach.is_behind_nat()
    addresses(monkeypatch, "10.0.0.1")
    assert reach.is_behind_nat()
