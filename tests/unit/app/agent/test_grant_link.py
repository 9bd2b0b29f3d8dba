"""The lanes of one grant: nothing waits behind something slower, and the end takes all along."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from app.agent.cache import BlobCache
from app.agent.grant_link import GrantLink
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId
from gpugoblin.units import MIB
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import GrantOffer
from gpugoblin.wire.messages.lease import Abandon, Exchange, ExchangeReply
from tests.helpers.agent_network import Reply, Server, message

G = GrantId("grant_a")


class Slow(Server):
    """Holds questions until `go`, and answers everything else at once."""

    def __init__(self, directory: Path) -> None:
        self.go = threading.Event()
        super().__init__(directory, "slow")

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        if b"abandons" not in body or b'"abandons":[]' in body:
            self.go.wait(10)
        return message(ExchangeReply())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Slow]:
    made = Slow(tmp_path)
    yield made
    made.go.set()
    made.close()


def link(server: Slow, cache: BlobCache) -> GrantLink:
    offer = GrantOffer("a.b.c", LabId("lab_a"), 0, server.address, server.files.sha256)
    return GrantLink(G, offer, make_key(), SystemClock(), cache)


def test_telling_does_not_wait_for_a_held_question(server: Slow, tmp_path: Path) -> None:
    made = link(server, BlobCache(tmp_path / "cache", MIB * 16, 0))
    asking = made.exchange(Exchange(want=1))
    telling = made.exchange(Exchange(abandons=(Abandon(LeaseId("lease_a"), "owner"),)))
    assert telling.result(10) == ExchangeReply()
    assert not asking.done()
    server.go.set()
    assert asking.result(10) == ExchangeReply()
    made.close()


def test_the_end_closes_the_cache_and_takes_nothing_more(server: Slow, tmp_path: Path) -> None:
    cache = BlobCache(tmp_path / "cache", MIB * 16, 0)
    made = link(server, cache)
    held = made.exchange(Exchange(want=1))
    waiting = made.fetch("x.y.z", BlobHash("aa" * 32), 10)
    made.close()
    with pytest.raises((AgentError, CancelledError)):
        waiting.result(10)
    with pytest.raises(CancelledError):
        made.exchange(Exchange(want=1)).result(10)
    with pytest.raises(AgentError):
        cache.read_into(G, BlobHash("aa" * 32), memoryview(bytearray(10)))
    server.go.set()
    held.result(10)


def test_an_address_that_is_never_used(tmp_path: Path) -> None:
    offer = GrantOffer("a.b.c", LabId("lab_a"), 0, "http://192.0.2.1:80")
    cache = BlobCache(tmp_path / "cache", MIB * 16, 0)
    with pytest.raises(AgentError):
        GrantLink(G, offer, make_key(), SystemClock(), cache)
