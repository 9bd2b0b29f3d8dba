"""The upgrade on the command line, and at the start of a node."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from server_stub.node import settings
from server_stub.node.commands import main
from server_stub.node.service import open_state
from server_stub.node.store.schema import SCHEMA_VERSION
from server_stub.node.store.sqlite import connect, migrate
from tests.helpers.node import LabNode
from tests.unit.server_stub.node.store.test_migrations import old_database

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
