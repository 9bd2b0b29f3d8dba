"""A database that is lost is not made anew by whoever looks for it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from server_stub.node import presence
from server_stub.node.commands import main
from server_stub.node.settings import NodeSettings, template
from server_stub.node.store.sqlite import connect, migrate
from tests.helpers.lab import Lab, row_sums
from tests.helpers.node import LabNode, lab_settings

__all__: list[str] = []

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    values = {name: value for name, value in lab_settings(tmp_path).values.items() if value != ""}
    path.write_text(template(values))
    return path


COMMANDS = (
    ["gc"], ["gc", "--delete"], ["fsck"], ["user", "list"], ["user", "add", "beth"],
    ["quota", "show"], ["upgrade"],
)  # fmt: skip


def test_no_command_makes_a_new_database_beside_results(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that starts with a new database deletes what that does not name."""
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        lab.wait(lab.submit(row_sums((3, 4)), lab.file(VALUES, "v.npy"), name="sums"))
        database = node.settings.database
    away = tmp_path / "node.sqlite"
    database.rename(away)
    for words in COMMANDS:
        assert main([*words, "--config", str(config)]) == 1, words
        assert "[database_missing]" in capsys.readouterr().err, words
        assert not database.exists(), words
    # One without a table, as such a look left it before, is none either.
    connect(database).close()
    assert database.stat().st_size > 0
    with pytest.raises(NodeError, match="missing or empty"), LabNode(tmp_path):
        pass
    database.unlink()
    away.rename(database)
    with LabNode(tmp_path) as node, Lab(node, tmp_path) as lab:
        done = lab.job("sums")
        np.testing.assert_allclose(lab.result(done.outputs[0]), VALUES.sum(1))


def test_a_file_that_is_no_database_has_a_code(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "node.sqlite").write_bytes(b"no database at all" * 1000)
    for words in COMMANDS:
        assert main([*words, "--config", str(config)]) == 1, words
        assert "[database_damaged]" in capsys.readouterr().err, words


def test_rows_of_another_version_are_not_used(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only a newer program knows to be needed is deleted by none."""
    with LabNode(tmp_path) as node:
        database = node.settings.database
    with closing(connect(database)) as connection:
        connection.execute("update meta set value = '999' where key = 'schema_version'")
    for words in (["gc", "--delete"], ["fsck"], ["user", "list"]):
        assert main([*words, "--config", str(config)]) == 1, words
        assert "[database_newer]" in capsys.readouterr().err, words


def test_a_new_node_may_have_a_new_database(tmp_path: Path) -> None:
    settings: NodeSettings = lab_settings(tmp_path)
    presence.refuse_if_lost(settings)
    with pytest.raises(NodeError) as caught:
        presence.require_current(settings)
    assert caught.value.code == "database_missing"
    settings.state.mkdir()
    with closing(connect(settings.database)) as connection:
        migrate(connection)
    blob = settings.blob_root / "blobs" / "ab" / ("ab" * 32)
    blob.parent.mkdir(parents=True)
    blob.touch()
    presence.refuse_if_lost(settings)
    presence.require_current(settings)
    settings.database.unlink()
    with pytest.raises(NodeError, match="missing"):
        presence.refuse_if_lost(settings)
