"""The tables can be made, and the hot statements use their indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_stub.node.store.schema import STATEMENTS
from server_stub.node.store.sqlite import connect, migrate

__all__: list[str] = []


def test_every_table_is_named_by_the_module_that_owns_it() -> None:
    made = {m[1] for s in STATEMENTS if (m := re.match(r"create table (\w+)", s))}
    root = Path("server_stub/node")
    texts = "\n".join(path.read_text() for path in root.rglob("*.py") if path.name != "schema.py")
    for table in made:
        assert re.search(rf"\b{table}\b", texts), f"nobody uses the table {table}"


@pytest.fixture
def plans() -> Iterator[object]:
    connection = connect(":memory:")
    migrate(connection)

    def plan(statement: str) -> str:
        rows = connection.execute(f"explain query plan {statement}").fetchall()
        return " / ".join(row[3] for row in rows)

    yield plan
    connection.close()


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (
            "select id from task where state = 'ready' and executor = 'grid' and lane = 1"
            " order by turn, id limit 1",
            "task_ready ",
        ),
        (
            "select id from task where state = 'ready' and job = 'j' and affinity = 1"
            " order by id limit 1",
            "task_ready_near",
        ),
        (
            "select count(*) from lease where grant_id = 'g' and state in ('issued', 'committed')",
            "lease_of_grant",
        ),
        ("select id from lease where state in ('issued', 'committed') and until_s < 5 and"
         " device != 'local' order by until_s limit 1000", "lease_live"),
        ("select receipt from outbox where sent_s is null order by verified_s", "outbox_open"),
        ("select 1 from task_input where producer = 5", "task_input_producer"),
    ],
)  # fmt: skip
def test_hot_statements_use_their_index(plans: object, statement: str, index: str) -> None:
    found = plans(statement)  # type: ignore[operator]
    assert index in f"{found} "
    assert "TEMP B-TREE" not in found
