"""The store in PostgreSQL: as SQLite's, and lost connections, lost commits and several replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from gpugoblin.errors import CoordinatorError, WireError
from gpugoblin.wire.messages.contact import Contact
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator import audit, ledger, postgres, store_postgres
from server_stub.coordinator.handlers import contact, node
from server_stub.coordinator.handlers.common import use_nonce
from server_stub.coordinator.house import Caller
from server_stub.coordinator.store_postgres import PostgresStore, transact
from server_stub.coordinator.store_writer import Transaction
from tests.helpers.coordinator import Desk, card
from tests.helpers.postgres import Postgres

INSERT = "INSERT INTO account (account, name, created_s) VALUES (?, ?, 0)"


@pytest.fixture
def place(dsn: str) -> str:
    postgres.create(dsn)
    return dsn


@pytest.fixture
def running(place: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(place)
    yield opened
    opened.close()


def add(name: str) -> Any:
    return lambda tx: tx.execute(INSERT, f"account_{name}", name)


def names(dsn: str) -> list[str]:
    rows = transact(dsn, lambda tx: tx.rows("SELECT name FROM account ORDER BY name"))
    return [row[0] for row in rows]


def held(store: PostgresStore) -> threading.Event:
    """Holds the writer, so that what is submitted next forms one group."""
    gate = threading.Event()
    store.submit(lambda tx: gate.wait(10))
    return gate


def test_a_result_is_there_for_others_before_anyone_hears_of_it(
    place: str, running: PostgresStore
) -> None:
    assert running.submit(add("a")).result(10) == 1
    assert names(place) == ["a"]


def test_many_at_once_share_commits(place: str, running: PostgresStore) -> None:
    number = "SELECT pg_current_xact_id()::text"
    gate = held(running)

    def work(tx: Transaction, name: str) -> Any:
        add(name)(tx)
        return tx.row(number)

    futures = [running.submit(lambda tx, n=n: work(tx, f"n{n}")) for n in range(200)]
    gate.set()
    assert len({future.result(10) for future in futures}) <= 2
    assert len(names(place)) == 200


def test_a_piece_that_raises_is_undone_alone(place: str, running: PostgresStore) -> None:
    gate = held(running)

    def failing(tx: Transaction) -> None:
        add("b")(tx)
        raise CoordinatorError("device_unknown")

    def colliding(tx: Transaction) -> None:
        add("c")(tx)
        add("c")(tx)

    def swallowing(tx: Transaction) -> None:
        add("e")(tx)
        with pytest.raises(psycopg.IntegrityError):
            add("e")(tx)

    futures = [
        running.submit(work) for work in (add("a"), failing, colliding, swallowing, add("d"))
    ]
    gate.set()
    assert futures[0].result(10) == 1
    with pytest.raises(CoordinatorError):
        futures[1].result(10)
    with pytest.raises(psycopg.IntegrityError):
        futures[2].result(10)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        futures[3].result(10)
    assert futures[4].result(10) == 1
    assert names(place) == ["a", "d"]


def test_nested_parts_are_undone_alone(place: str) -> None:
    def work(tx: Transaction) -> None:
        add("a")(tx)
        with pytest.raises(ZeroDivisionError), tx.nested():  # noqa: PT012 - what is undone
            add("b")(tx)
            with tx.nested():
                add("c")(tx)
            raise ZeroDivisionError
        with tx.nested():
            add("d")(tx)

    transact(place, work)
    assert names(place) == ["a", "d"]


def test_closing_finishes_what_was_submitted_and_refuses_the_rest(place: str) -> None:
    opened = PostgresStore(place)
    futures = [opened.submit(add(f"n{number}")) for number in range(20)]
    opened.close()
    opened.close()
    assert all(future.result(0) == 1 for future in futures)
    with pytest.raises(CoordinatorError) as caught:
        opened.submit(add("late")).result(0)
    assert caught.value.code == "coordinator_stopping"


def test_a_replica_that_holds_the_lock_too_long(
    server: Postgres, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SESSION", (("lock_timeout", "50ms"),))
    with server.connect(server.name_of(place)) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s)", (postgres.LOCK,))
        with pytest.raises(CoordinatorError) as caught:
            transact(place, add("a"))
        other.execute("ROLLBACK")
    assert caught.value.code == "coordinator_database_busy"
    transact(place, add("b"))
    assert names(place) == ["b"]


def test_a_statement_that_the_database_refuses_spoils_no_other(
    place: str, running: PostgresStore
) -> None:
    gate = held(running)
    stopped = "SELECT set_config('statement_timeout', '30ms', true), pg_sleep(0)"

    def slow(tx: Transaction) -> None:
        tx.row(stopped)
        tx.row("SELECT pg_sleep(5)")

    before, refused, after = (running.submit(work) for work in (add("a"), slow, add("z")))
    gate.set()
    with pytest.raises(CoordinatorError) as caught:
        refused.result(10)
    assert caught.value.code == "coordinator_database_busy"
    assert (before.result(10), after.result(10)) == (1, 1)
    assert names(place) == ["a", "z"]


def test_a_connection_that_was_lost_between_two_groups(
    server: Postgres, place: str, running: PostgresStore
) -> None:
    running.submit(add("a")).result(10)
    for process in server.backends(place):
        server.cut(process)
    assert running.submit(add("b")).result(10) == 1
    assert names(place) == ["a", "b"]


@pytest.mark.parametrize("at", range(10))
def test_a_cut_before_any_statement_of_a_group_does_everything_once(
    server: Postgres, place: str, running: PostgresStore, at: int
) -> None:
    """Statements 0 to 8 belong to a group of three pieces; 9 is its commit."""
    passed: list[str] = []

    def step(name: str) -> None:
        if len(passed) == at:
            for process in server.backends(place):
                server.cut(process)
        passed.append(name)

    def work(tx: Transaction, name: str) -> str:
        for part in range(3):
            step(name)
            tx.execute(INSERT, f"account_{name}{part}", f"{name}{part}")
        if name == "c":
            step("commit")
        return name

    gate = held(running)
    futures = [running.submit(lambda tx, n=n: work(tx, n)) for n in "abc"]
    gate.set()
    assert [future.result(20) for future in futures] == ["a", "b", "c"]
    assert len(passed) == at + 1 + 10, "what was undone was run again, once"
    assert names(place) == [f"{n}{part}" for n in "abc" for part in range(3)]


def test_a_replica_that_stands_still_does_not_stop_the_others(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SESSION", (("idle_in_transaction_session_timeout", "50ms"),))
    still, gate = PostgresStore(place), threading.Event()
    tries: list[int] = []

    def standing(tx: Transaction) -> int:
        tries.append(1)
        if len(tries) == 1:
            gate.wait(10)
        return int(add("a")(tx))

    try:
        first = still.submit(standing)
        transact(place, add("b"))
        gate.set()
        assert first.result(10) == 1
    finally:
        still.close()
    assert names(place) == ["a", "b"]
    assert len(tries) == 2


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_answer_was_lost(
    place: str, running: PostgresStore, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    runs: list[int] = []
    real = store_postgres._commit

    def losing(connection: Any, number: str | None) -> None:
        monkeypatch.setattr(store_postgres, "_commit", real)
        if is_committed:
            connection.execute("COMMIT")
        connection.close()
        assert number is not None
        raise store_postgres._CommitLostError(number)

    def work(tx: Transaction) -> int:
        runs.append(1)
        return int(add("a")(tx))

    monkeypatch.setattr(store_postgres, "_commit", losing)
    assert running.submit(work).result(10) == 1
    assert names(place) == ["a"]
    assert len(runs) == (1 if is_committed else 2)


def test_a_commit_of_which_nothing_can_be_learned(
    place: str, running: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(connection: Any, number: str | None) -> None:
        connection.execute("COMMIT")
        connection.close()
        raise store_postgres._CommitLostError("999999999")  # of the future: another server

    with monkeypatch.context() as patch:
        patch.setattr(store_postgres, "_commit", losing)
        with pytest.raises(CoordinatorError) as caught:
            running.submit(add("a")).result(10)
    assert caught.value.code == "coordinator_outcome_unknown"
    assert running.submit(add("b")).result(10) == 1


def test_a_database_that_stays_away(
    server: Postgres, place: str, running: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(dsn: str) -> None:
        raise psycopg.OperationalError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(store_postgres, "PATIENCE_S", 0.1)
        patch.setattr(postgres, "connect", away)
        for process in server.backends(place):
            server.cut(process)
        futures = [running.submit(add(name)) for name in ("a", "b")]
        for future in futures:
            with pytest.raises(CoordinatorError) as caught:
                future.result(10)
            assert caught.value.code == "coordinator_database_unreachable"
    assert running.submit(add("c")).result(10) == 1
    assert names(place) == ["c"]


def test_a_group_that_the_database_undoes_is_run_again(place: str, running: PostgresStore) -> None:
    tries: list[int] = []

    def work(tx: Transaction) -> int:
        tries.append(1)
        add("a")(tx)
        if len(tries) < 3:
            raise psycopg.errors.SerializationFailure("again")
        return len(tries)

    assert running.submit(work).result(10) == 3
    assert names(place) == ["a"]


# -- several replicas ------------------------------------------------------------------------


def test_replicas_lose_no_change_of_each_other(place: str) -> None:
    """Work that reads, thinks and writes, from three replicas at once: each change counts."""

    def work(tx: Transaction) -> None:
        row = tx.row("SELECT value FROM counter WHERE name = 'level'")
        assert row is not None
        tx.execute("UPDATE counter SET value = ? WHERE name = 'level'", row[0] + 1)
        audit.record(tx, 0.0, "operator", "account_add", "account_a")

    replicas = [PostgresStore(place) for _ in range(3)]
    try:
        futures = [replicas[n % 3].submit(work) for n in range(150)]
        for future in futures:
            future.result(30)
    finally:
        for replica in replicas:
            replica.close()
    found = transact(place, lambda tx: tx.row("SELECT value FROM counter WHERE name = 'level'"))
    assert found == (150,)
    assert transact(place, audit.verify_chain) is None


def test_a_nonce_is_used_once_among_replicas(place: str) -> None:
    replicas = [PostgresStore(place) for _ in range(2)]
    caller = Caller(bytes(32), b"n" * 16, 100.0, "192.0.2.1")
    try:
        futures = [
            replica.submit(lambda tx: use_nonce(tx, 0.0, caller))
            for _ in range(10)
            for replica in replicas
        ]
        errors = [future.exception(20) for future in futures]
    finally:
        for replica in replicas:
            replica.close()
    assert errors.count(None) == 1
    assert all(isinstance(error, WireError) for error in errors if error is not None)


def test_replicas_grant_no_card_too_many_and_book_every_receipt_once(place: str) -> None:
    def prepare(tx: Transaction) -> Any:
        desk = Desk(tx)
        lab = desk.lab(wants=7)
        return desk, lab, [desk.device(f"ann-{n}") for n in range(12)]

    desk, lab, devices = transact(place, prepare)
    replicas = [PostgresStore(place) for _ in range(2)]

    def ask(number: int) -> Any:
        device = devices[number]
        message = Contact(cards=(card(),), holding=(), wants=(0,))
        caller = Caller(public_key_bytes(device.key), b"", 0.0, device.address)
        return (
            replicas[number % 2]
            .submit(
                lambda tx: contact.contact(desk.house, tx, desk.now_s, desk.rng, caller, message)
            )
            .result(20)
        )

    def pay(job: tuple[int, Any]) -> Any:
        number, message = job
        caller = Caller(public_key_bytes(lab.key), b"", 0.0, "192.0.2.9")
        return (
            replicas[number % 2]
            .submit(lambda tx: node.receipts(desk.house, tx, desk.now_s, desk.rng, caller, message))
            .result(20)
        )

    try:
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(ask, range(12)))
            offers = [(d, r.grants[0]) for d, r in zip(devices, replies, strict=True) if r.grants]
            assert len(offers) == 7
            batch = ReceiptBatch(
                lab.name,
                tuple(
                    lab.receipt(device, device.verified(offer.ticket, offer.lab))
                    for device, offer in offers
                ),
            )
            paid = list(pool.map(pay, [(number, batch) for number in range(6)]))
    finally:
        for replica in replicas:
            replica.close()
    assert sum(reply.booked for reply in paid) == 7
    assert transact(place, ledger.audit_ledger) == []
    total = transact(place, lambda tx: tx.row("SELECT SUM(micro_units) FROM lab_day"))
    assert total == (7 * 2_500_000,)
