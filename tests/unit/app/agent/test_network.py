"""Instructions become calls, answers become events; errors become waits of the right kind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.agent import events
from app.agent.cache import BlobCache
from app.agent.card_engine import Computed
from app.agent.instructions import Contact, Exchange, Fetch, Upload
from app.agent.lab import Output
from app.agent.link import Peer
from app.agent.network import Cards, Network
from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError, GoblinError
from gpugoblin.ids import BlobHash, GrantId, LeaseId
from gpugoblin.units import MIB
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import CardClass
from gpugoblin.wire.messages.task import Capabilities
from gpugoblin.wire.signing import public_key_bytes
from tests.helpers.agent_network import FakeCoordinator, FakeLab, refusal

CARD = CardClass(0, "cpu", 2**30, ("float32",), "full", "engine-1", "ab" * 32)
FACTS = Capabilities(
    "ab" * 32, {}, ("float32",), 2**30, 2**26, 8, 1e9, 1e9, "full", "engine-1", "d", "cd" * 32,
    ("float32",), ("float32",), ("float32",),
)  # fmt: skip


class Bench:
    def __init__(self, directory: Path) -> None:
        self.coordinator = FakeCoordinator(directory)
        self.lab = FakeLab(directory, self.coordinator)
        self.events: list[events.Event] = []
        self.errors: list[GoblinError] = []
        self.refused: list[GoblinError] = []
        key = make_key()
        self.coordinator.devices.add(public_key_bytes(key))
        files = self.coordinator.files
        self.network = Network(
            key,
            Peer("coordinator", self.coordinator.address, files.sha256),
            SystemClock(),
            random.Random(1),
            BlobCache(directory / "cache", 64 * MIB, 0),
            Cards(lambda: (CARD,), lambda _: FACTS),
            lambda *news: self.events.extend(news),
            self.errors.append,
            self.refused.append,
        )

    async def until(self, kind: type[events.Event]) -> Any:
        for _ in range(500):
            found = [each for each in self.events if isinstance(each, kind)]
            if found:
                return found[-1]
            await asyncio.sleep(0.01)
        raise TimeoutError(f"no {kind.__name__}; {self.events} {self.errors}")

    async def granted(self) -> GrantId:
        self.network.contact(Contact(holding=(), wants=(0,)))
        reply = await self.until(events.ContactReply)
        grant: GrantId = reply.grants[0].grant
        self.network.open_grant(grant)
        return grant

    async def leased(self) -> tuple[GrantId, events.LeaseOffered]:
        grant = await self.granted()
        self.network.exchange(Exchange(grant=grant, exchange=1, want=1, introduces=True))
        await self.until(events.ExchangeDone)
        return grant, await self.until(events.LeaseOffered)

    def run(self, script: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            try:
                await script()
            finally:
                self.network.close()

        asyncio.run(whole())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    made.lab.add_products(3, rows=4, inner=8, columns=4)
    yield made
    made.lab.close()
    made.coordinator.close()


def test_from_a_contact_to_an_upload(bench: Bench) -> None:
    async def script() -> None:
        grant, offered = await bench.leased()
        lease = offered.lease
        for each in offered.inputs:
            bench.network.fetch(Fetch(grant=grant, lease=lease, blob=each.blob, nbytes=each.nbytes))
        while len([each for each in bench.events if isinstance(each, events.BlobReady)]) < 2:
            await asyncio.sleep(0.01)
        first = offered.inputs[0]
        target = bytearray(first.nbytes)
        bench.network.reader(lease)(first.blob, memoryview(target))
        assert blob_hash(target) == first.blob
        task = bench.network.held[lease].task
        data = bench.lab.arrays[task.task][0].tobytes()
        output = Output(0, BlobHash(blob_hash(data)), data)
        bench.network.results[lease] = Computed((output,), 0.1, 100)
        bench.network.exchange(Exchange(grant=grant, exchange=2, commits=(lease,)))
        assert (await bench.until(events.UploadsAwaited)).leases == (lease,)
        bench.network.upload(Upload(grant=grant, lease=lease))
        assert (await bench.until(events.UploadDone)).state == "checking"
        bench.network.drop_lease(lease)

    bench.run(script)
    assert bench.lab.verified() == 1
    assert bench.lab.problems == []
    totals = bench.network.totals
    assert (totals.results_sent, totals.bytes_sent) == (1, 4 * 4 * 4)
    assert totals.bytes_received == 4 * 8 * 4 * 2
    assert bench.network.held == bench.network.results == {}


def test_a_contact_that_fails_is_tried_later(bench: Bench) -> None:
    bench.coordinator.contact = lambda *_: refusal(503, "busy")  # type: ignore[method-assign]

    async def script() -> None:
        bench.network.contact(Contact(holding=(), wants=()))
        failed = await bench.until(events.ContactFailed)
        assert failed.code == "peer_refused"
        assert 0.1 <= failed.retry_s <= 1.1

    bench.run(script)


def test_a_grant_of_no_use_is_told_and_not_kept(bench: Bench) -> None:
    bench.coordinator.change_offer = lambda offer: msgspec.structs.replace(offer, card=9)

    async def script() -> None:
        bench.network.contact(Contact(holding=(), wants=(0,)))
        assert (await bench.until(events.ContactReply)).grants == ()

    bench.run(script)
    assert [error.code for error in bench.refused] == ["grant_unusable"]
    assert bench.network.offers == {}


@pytest.mark.parametrize(
    ("status", "code", "is_final"),
    [
        (401, "ticket_expired", True),
        (403, "grant_revoked", True),
        (401, "signature_clock_wrong", False),
        (503, "busy", False),
        (400, "message_malformed", False),
    ],
)
def test_which_refusals_end_a_grant(bench: Bench, status: int, code: str, is_final: bool) -> None:
    bench.lab.exchange = lambda *_: refusal(status, code)  # type: ignore[method-assign]

    async def script() -> None:
        grant = await bench.granted()
        bench.network.exchange(Exchange(grant=grant, exchange=1, want=1))
        assert (await bench.until(events.ExchangeFailed)).is_final is is_final

    bench.run(script)


def test_a_lie_about_a_blob_is_final_and_a_lie(bench: Bench) -> None:
    bench.lab.range = lambda name, data, first, last: (  # type: ignore[method-assign]
        206, b"\0" * (last + 1 - first),
        {"Content-Range": f"bytes {first}-{last}/{len(data)}"},
    )  # fmt: skip

    async def script() -> None:
        grant, offered = await bench.leased()
        each = offered.inputs[0]
        bench.network.fetch(
            Fetch(grant=grant, lease=offered.lease, blob=each.blob, nbytes=each.nbytes)
        )
        failed = await bench.until(events.BlobFailed)
        assert (failed.code, failed.is_final, failed.is_lie) == ("blob_is_false", True, True)

    bench.run(script)


def test_a_fetch_for_a_lease_that_is_gone_is_told(bench: Bench) -> None:
    async def script() -> None:
        grant = await bench.granted()
        blob = BlobHash("aa" * 32)
        bench.network.fetch(Fetch(grant=grant, lease=LeaseId("lease_x"), blob=blob, nbytes=1))
        failed = await bench.until(events.BlobFailed)
        assert not failed.is_final

    bench.run(script)


def test_a_closed_grant_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    async def script() -> None:
        grant, offered = await bench.leased()
        each = offered.inputs[0]
        bench.network.fetch(
            Fetch(grant=grant, lease=offered.lease, blob=each.blob, nbytes=each.nbytes)
        )
        await bench.until(events.BlobReady)
        assert list((tmp_path / "cache").iterdir())
        bench.network.close_grant(grant)
        assert not list((tmp_path / "cache").iterdir())
        assert bench.network.held == {}

    bench.run(script)


def test_a_link_follows_the_coordinator() -> None:
    place = SimpleNamespace(coordinator_peer=None, key=make_key(), clock=SystemClock())
    with pytest.raises(AgentError) as caught:
        Network.linked(place, None)  # type: ignore[arg-type]
    assert caught.value.code == "coordinator_missing"
    place.coordinator_peer = Peer("coordinator", "https://c:1")
    first = Network.linked(place, None)  # type: ignore[arg-type]
    assert Network.linked(place, first) is first  # type: ignore[arg-type]
    place.coordinator_peer = Peer("coordinator", "https://d:1")
    second = Network.linked(place, first)  # type: ignore[arg-type]
    assert second.peer.address == "https://d:1"
    second.close()
