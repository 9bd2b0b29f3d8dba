"""Two coordinator processes on one PostgreSQL: either answers for both, and one may be killed."""

from __future__ import annotations

import gc
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gpugoblin.wire.messages.receipt import ReceiptBatchReply
from tests.helpers import postgres
from tests.helpers.coordinator import write_config
from tests.helpers.coordinator_process import Device, Lab, Server


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    if postgres.missing():
        pytest.skip(postgres.MISSING)
    with postgres.running() as found:
        yield found.new_database()


@pytest.fixture
def pair(tmp_path: Path, dsn: str) -> Iterator[tuple[Server, Server]]:
    """Two servers with the same keys and certificate."""
    config = write_config(
        tmp_path / "one", database=dsn, enrol_interval_s=0.05, contact_s=0.2, grant_s=600
    )
    first = Server(config)
    first.start()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    second = Server(tmp_path / "two" / "coordinator.toml")
    second.start()
    yield first, second
    for server in (first, second):
        if server.process is not None:
            server.end(signal.SIGKILL)


# A server that dies within a TLS handshake leaves urllib3's socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_either_answers_for_both_and_outlives_the_other(pair: tuple[Server, Server]) -> None:
    first, second = pair
    assert first.sha256 == second.sha256
    first.run("account", "add", "ann")
    lab, device = Lab(first), Device(first)
    lab.register("lab-a")
    name = device.enrol("ann")
    lab.server = device.server = second
    reply = device.contact()
    assert reply.device == name
    (offer,) = reply.grants
    grant = lab.verified(offer.ticket, device)
    receipts = [lab.receipt(device, grant, number) for number in range(20)]
    assert lab.book(*receipts[:10]).booked == 10

    lab.server = first
    answered: list[int] = []

    def ask() -> None:
        try:
            while True:
                answered.append(lab.book(*receipts).known)
        except (requests.ConnectionError, AssertionError):
            return  # it was killed

    asking = threading.Thread(target=ask)
    asking.start()
    while not answered:
        assert asking.is_alive()
    first.end(signal.SIGKILL)
    asking.join()
    gc.collect()  # here, where a socket that died is expected, and not in a later test

    lab.server = second
    assert lab.book(*receipts) == ReceiptBatchReply(booked=0, known=20)
    assert second.run("credits") == [{"subject": "ann", "units": 30.0, "receipts": 20}]
    second.run("revoke", "grant", grant.jti)
    first.start()
    lab.server = first
    assert lab.revoked() == (1, (grant.jti,))
    assert first.run("check") == {"ledger_faults": 0, "audit_broken_at": 0}
    assert first.end(signal.SIGTERM) == second.end(signal.SIGTERM) == 0
