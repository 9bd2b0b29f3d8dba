"""The upgrade on the command line, and at the start of a node."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from server_stub.node import settings
from server_stub.node.commands import main
from server_stub.node.service import open_state
from server_stub.node.store.schema import SCHEMA_VERSION
from server_stub.node.store.sqlite import connect, migrate
from tests.helpers.node import LabNode
from tests.unit.server_stub.node.store.test_migrations import HERE as SCHEMAS
from tests.unit.server_stub.node.store.test_migrations import old_database
from tests.unit.server_stub.node.test_resuming import lab_case

__all__: list[str] = []


def test_an_older_database_is_upgraded_once(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["upgrade", "--config", str(config)]
    assert main(words) == 0
    assert "not there yet" in capsys.readouterr().out
    place = settings.load(config).database
    old_database(place, 4)
    assert main(["user", "list", "--config", str(config)]) == 1
    assert "[database_older]" in capsys.readouterr().err
    with closing(open_state(settings.load(config))):
        assert main(words) == 1
    assert "[state_dir_taken]" in capsys.readouterr().err
    assert main(words) == 0
    assert f"version 4 is now version {SCHEMA_VERSION}" in capsys.readouterr().out
    assert place.with_name("node.sqlite.version-4").exists()
    assert main(words) == 0
    assert "already" in capsys.readouterr().out
    assert main(["user", "list", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "ann  researcher\n    default: read submit, valid\n"


def as_version_4(path: Path) -> None:
    """Every row of a database of this version in the tables of version 4."""
    four = path.with_name("four")
    with closing(sqlite3.connect(four)) as made:
        made.executescript((SCHEMAS / "schema_4.sql").read_text())
        made.execute("attach ? as new", (str(path),))
        for (table,) in made.execute(
            "select name from main.sqlite_master where type = 'table'"
        ).fetchall():
            columns = ", ".join(row[1] for row in made.execute(f"pragma main.table_info({table})"))
            text = f"insert into main.{table}({columns}) select {columns} from new.{table}"  # noqa: S608 - our own tables
            made.execute(text)
        made.execute("update meta set value = '4' where key = 'schema_version'")
        made.commit()
    for old in path.parent.glob("node.sqlite*"):
        old.unlink()
    four.rename(path)


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_unfinished_job_of_before_goes_on_to_the_same_bytes(
    tmp_path: Path, cancelled: bool
) -> None:
    (tmp_path / "whole").mkdir()
    with lab_case(tmp_path / "whole") as whole:
        whole.workers.goes_on = True
        assert whole.lab.wait(whole.submit()).state == "done"
    (tmp_path / "half").mkdir()
    with lab_case(tmp_path / "half") as case:
        job = case.half()
        if cancelled:
            case.cancel(job)
    as_version_4(tmp_path / "half" / "state" / "node.sqlite")
    with lab_case(tmp_path / "half") as later:
        later.a, later.b, later.inputs = case.a, case.b, case.inputs
        later.finish(later.submit() if cancelled else later.lab.job("c"))
        assert later.workers.computed == job.tasks - 3
        lanes = later.lab.node.read("select distinct lane from task")
        assert lanes == later.lab.node.read("select number from lane")
    assert later.place.read_bytes() == whole.place.read_bytes()
    assert (tmp_path / "half" / "state" / "node.sqlite.version-4").exists()


def test_serving_upgrades_and_refuses_a_newer_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with closing(connect(state / "node.sqlite")) as connection:
        migrate(connection)
        connection.execute("update meta set value = '999' where key = 'schema_version'")
    with pytest.raises(Exception, match="newer program"), LabNode(tmp_path):
        pass
    for path in state.glob("node.sqlite*"):
        path.unlink()
    old_database(state / "node.sqlite", 4)
    with closing(connect(state / "node.sqlite")) as connection:
        connection.execute("delete from task")
        connection.execute("delete from job")
    with LabNode(tmp_path) as node:
        assert node.service.health()["state"] == "running"
    assert (state / "node.sqlite.version-4").exists()
