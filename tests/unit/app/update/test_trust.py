"""What a package ships is read with bounds, and only from where it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.update.trust import PACKAGE, Trust, read_trust, shipped
from gpugoblin.errors import AgentError

SOURCE = '{"address": "https://updates.example.org/"}'


def test_nothing_is_trusted_where_nothing_was_shipped(tmp_path: Path) -> None:
    assert read_trust(tmp_path) is None


def test_both_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "root.json").write_text("{}")
    (tmp_path / "source.json").write_text(SOURCE)
    assert read_trust(tmp_path) == Trust(b"{}", "https://updates.example.org")


@pytest.mark.parametrize(
    ("root", "source"),
    [
        ("{}", "{}"),
        ("{}", '{"address": "http://updates.example.org"}'),
        ("{}", '{"address": "https://x", "more": 1}'),
        ("{}", " " * 5000),
        (" " * 70_000, SOURCE),
        ("{}", None),
    ],
)
def test_what_is_damaged_is_said(tmp_path: Path, root: str, source: str | None) -> None:
    (tmp_path / "root.json").write_text(root)
    if source is not None:
        (tmp_path / "source.json").write_text(source)
    with pytest.raises(AgentError) as refusal:
        read_trust(tmp_path)
    assert refusal.value.code == "update_trust_damaged"


def test_a_tarball_brings_its_own(tmp_path: Path) -> None:
    module = tmp_path / "lib/python3.11/site-packages/app/update/trust.py"
    assert shipped(module=module) == PACKAGE
    beside = tmp_path / "share/gpugoblin/update"
    beside.mkdir(parents=True)
    assert shipped(module=module) == beside
    assert shipped(module=Path("/a/b.py")) == PACKAGE
