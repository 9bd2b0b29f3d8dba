"""The researcher's guide: its examples run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from gpugoblin.client.session import Session
from tests.helpers.fake_node import FakeNode

GUIDE = Path(__file__).parents[4] / "docs" / "researcher" / "guide.md"


def examples() -> list[tuple[str, list[str]]]:
    """Each block of Python, and the lines that it promises to print."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [(block, re.findall(r"^# (.*)$", block, re.MULTILINE)) for block in blocks]


def run_guide(node_address: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs all blocks in one namespace, with the local node replaced by another."""
    monkeypatch.chdir(directory)
    names: dict[str, object] = {}
    for number, (block, promised) in enumerate(examples()):
        code = block.replace('gg.connect("local")', f'gg.connect("{node_address}")')
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, f"guide.md block {number}", "exec"), names)  # noqa: S102
        assert out.getvalue().splitlines() == promised, block
    lab = names["lab"]
    assert isinstance(lab, Session)
    lab.close()


def test_the_guide(node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(examples()) >= 12
    run_guide(node.address, tmp_path, monkeypatch)
