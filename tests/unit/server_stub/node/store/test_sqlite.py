"""The store: durable, grouped, isolated, ended cleanly."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.store import sqlite
from server_stub.node.store.protocol import Tx
from server_stub.node.store.schema import SCHEMA_VERSION
from server_stub.node.store.sqlite import BRIEF_S, SqliteStore, connect, migrate, transaction

__all__: list[str] = []


def write_meta(tx: Tx, key: str, value: str) -> None:
    tx.change("insert into meta values(?, ?)", (key, value))


def meta(tx: Tx) -> dict[str, str]:
    return {key: value for key, value in tx.rows("select key, value from meta")}


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        with SqliteStore(tmp_path / "db") as store:
            await store.write(lambda tx: write_meta(tx, "a", "1"))

    asyncio.run(first())
    with SqliteStore(tmp_path / "db") as store:
        assert store.read_now(meta)["a"] == "1"


def test_many_writers_share_commits_and_none_sees_anothers_failure(tmp_path: Path) -> None:
    async def play() -> list[object]:
        with SqliteStore(tmp_path / "db") as store:

            def body(tx: Tx, number: int) -> int:
                write_meta(tx, f"k{number}", "v")
                if number % 10 == 3:
                    raise NodeError("user_unknown", name=number)
                return number

            waiting = [store.write(lambda tx, n=n: body(tx, n)) for n in range(100)]
            results = await asyncio.gather(*waiting, return_exceptions=True)
            kept = await store.read(meta)
            assert len(kept) == 91  # ninety, and the schema's version
            return list(results)

    results = asyncio.run(play())
    for number, result in enumerate(results):
        if number % 10 == 3:
            assert isinstance(result, NodeError)
        else:
            assert result == number


def test_after_runs_before_the_next_transaction(tmp_path: Path) -> None:
    seen: list[str] = []

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:
            one = store.write(lambda tx: seen.append("body 1"), lambda _: seen.append("after 1"))
            await one
            await store.write(lambda tx: seen.append("body 2"), lambda _: seen.append("after 2"))

    asyncio.run(play())
    assert seen == ["body 1", "after 1", "body 2", "after 2"]


def test_after_does_not_run_for_what_failed(tmp_path: Path) -> None:
    seen: list[str] = []

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:

            def fails(tx: Tx) -> None:
                write_meta(tx, "gone", "1")
                raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await store.write(fails, lambda _: seen.append("after"))
            assert "gone" not in await store.read(meta)

    asyncio.run(play())
    assert seen == []


def test_a_broken_disk_is_an_error_of_ours(tmp_path: Path) -> None:
    def breaks(tx: Tx) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:
            with pytest.raises(NodeError) as caught:
                await store.write(breaks)
            assert caught.value.code == "database_failed"

    asyncio.run(play())


def test_readers_cannot_write_and_do_not_wait(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "db") as store:
        with pytest.raises(sqlite3.OperationalError):
            store.read_now(lambda tx: write_meta(tx, "x", "1"))
        assert store.write_now(lambda tx: store.read_now(meta).get("schema_version")) == str(
            SCHEMA_VERSION
        )


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    connection = connect(tmp_path / "db")
    migrate(connection)
    for version, code in (
        ("99", "database_newer"),
        ("4", "database_older"),
        ("3", "database_version"),
        ("four", "database_version"),
    ):
        with transaction(connection) as tx:
            tx.change("update meta set value = ? where key = 'schema_version'", (version,))
        with pytest.raises(NodeError) as caught:
            migrate(connection)
        assert caught.value.code == code
    connection.close()


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    connection = connect(tmp_path / "db")
    connection.execute("create table other(x)")
    with pytest.raises(NodeError) as caught:
        migrate(connection)
    assert caught.value.code == "database_version"
    connection.close()


def test_a_transaction_that_fails_leaves_nothing() -> None:
    connection = connect(":memory:")
    migrate(connection)

    def half() -> None:
        with transaction(connection) as tx:
            write_meta(tx, "half", "1")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    with transaction(connection) as tx:
        assert "half" not in meta(tx)
        assert tx.one("select 1 where 1 = 2") is None
        assert tx.change("update meta set value = value") == 1
    connection.close()


def test_the_journal_is_durable() -> None:
    connection = connect(":memory:")
    assert connection.execute("pragma synchronous").fetchone() == (2,)
    connection.close()


def test_brief_transactions_and_others_keep_their_order(tmp_path: Path) -> None:
    """Brief ones run in the loop's thread, the others in the writer's; none overtakes."""
    seen: list[tuple[int, bool]] = []

    async def play() -> None:
        here = threading.get_ident()
        with SqliteStore(tmp_path / "db") as store:

            def body(tx: Tx, number: int) -> None:
                write_meta(tx, f"k{number}", "v")
                seen.append((number, threading.get_ident() == here))

            waiting = [
                store.write(lambda tx, n=n: body(tx, n), brief=n // 10 % 2 == 0) for n in range(60)
            ]
            await asyncio.gather(*waiting)
            assert len(await store.read(meta)) == 61

    asyncio.run(play())
    assert [number for number, _ in seen] == list(range(60))
    assert {number for number, is_here in seen if is_here} == {
        number for number in range(60) if number // 10 % 2 == 0
    }


def test_brief_transactions_do_not_see_each_others_failure(tmp_path: Path) -> None:
    after: list[int] = []

    async def play() -> list[object]:
        with SqliteStore(tmp_path / "db") as store:

            def body(tx: Tx, number: int) -> int:
                write_meta(tx, f"k{number}", "v")
                if number == 5:
                    raise NodeError("user_unknown", name=number)
                return number

            waiting = [
                store.write(lambda tx, n=n: body(tx, n), after.append, brief=True)
                for n in range(20)
            ]
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert len(await store.read(meta)) == 20
            return list(results)

    results = asyncio.run(play())
    assert isinstance(results.pop(5), NodeError)
    assert results == after == [number for number in range(20) if number != 5]


def test_slow_brief_transactions_let_the_loop_breathe(tmp_path: Path) -> None:
    order: list[str] = []

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:

            def body(tx: Tx, number: int) -> None:
                write_meta(tx, f"k{number}", "v")
                time.sleep(2 * BRIEF_S)
                order.append("transaction")

            waiting = [store.write(lambda tx, n=n: body(tx, n), brief=True) for n in range(3)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append("other work")
            await asyncio.gather(*waiting)

    asyncio.run(play())
    assert order.index("other work") < 3
    assert order.count("transaction") == 3


def test_closing_runs_brief_transactions_that_wait(tmp_path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "db")
        waiting = [
            store.write(lambda tx, n=n: write_meta(tx, f"k{n}", "v"), brief=True) for n in range(5)
        ]
        store.close()
        await asyncio.gather(*waiting)
        with pytest.raises(NodeError) as caught:
            store.write(lambda tx: None)
        assert caught.value.code == "database_failed"

    asyncio.run(play())
    with SqliteStore(tmp_path / "db") as again:
        assert len(again.read_now(meta)) == 6


@pytest.mark.parametrize("brief", [True, False])
def test_the_end_of_a_transaction_sees_all_who_share_it_and_none_who_failed(
    tmp_path: Path, brief: bool
) -> None:
    calls: list[list[int]] = []

    def end(tx: Tx, numbers: list[int]) -> None:
        calls.append(list(numbers))
        for number in numbers:
            write_meta(tx, f"e{number}", "v")

    def body(tx: Tx, number: int) -> None:
        tx.at_end(end, number)
        if number == 3:
            raise NodeError("user_unknown", name=number)

    async def play(numbers: range) -> None:
        with SqliteStore(tmp_path / "db") as store:
            waiting = [store.write(lambda tx, n=n: body(tx, n), brief=brief) for n in numbers]
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(play(range(10, 20)))
    # The first may have begun alone, before the others had come.
    assert [number for call in calls for number in call] == list(range(10, 20))
    assert len(calls) <= 2
    asyncio.run(play(range(6)))
    with SqliteStore(tmp_path / "db") as store:
        kept = [key for key in store.read_now(meta) if key.startswith("e")]
    assert sorted(kept) == sorted(f"e{n}" for n in (0, 1, 2, 4, 5, *range(10, 20)))


def test_a_transaction_whose_end_fails_has_not_happened(tmp_path: Path) -> None:
    def end(tx: Tx, _: list[int]) -> None:
        raise NodeError("user_unknown", name="end")

    def body(tx: Tx) -> None:
        write_meta(tx, "a", "1")
        tx.at_end(end, 1)

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:
            for brief in (True, False):
                with pytest.raises(NodeError):
                    await store.write(body, brief=brief)
            assert "a" not in await store.read(meta)

    asyncio.run(play())


@pytest.mark.parametrize("brief", [True, False])
def test_a_database_that_another_program_holds_is_waited_for(
    tmp_path: Path, brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keeping the event loop from other work, and not for ever."""
    holder = connect(tmp_path / "db")

    async def play() -> None:
        with SqliteStore(tmp_path / "db") as store:
            holder.execute("begin immediate")
            writing = store.write(lambda tx: write_meta(tx, "a", "1"), brief=brief)
            for _ in range(20):
                await asyncio.sleep(0.005)  # comes back only if the loop is free
            assert not writing.done()
            assert "a" not in await store.read(meta)
            holder.execute("rollback")
            await writing
            assert (await store.read(meta))["a"] == "1"
            holder.execute("begin immediate")
            monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
            with pytest.raises(NodeError) as caught:
                await store.write(lambda tx: write_meta(tx, "b", "1"), brief=brief)
            assert caught.value.code == "database_locked"
            holder.execute("rollback")
            assert "b" not in await store.read(meta)

    asyncio.run(play())
    holder.close()
