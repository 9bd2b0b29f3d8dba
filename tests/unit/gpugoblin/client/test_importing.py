"""The page of programs from elsewhere: its examples run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "researcher" / "importing.md"


@pytest.mark.parametrize("extra", ["", "jax", "onnx"])
def test_the_page(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, *others = PAGE.read_text().split("\n## ")
    array, jax, onnx = others
    if extra:
        pytest.importorskip(extra, reason=f"the extra {extra} is not installed")
    parts = {"": [first, array], "jax": [array, jax], "onnx": [array, onnx]}[extra]
    names: dict[str, object] = {}
    ran = 0
    for block in re.findall(r"```python\n(.*?)```", "\n".join(parts), re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, "importing.md", "exec"), names)  # noqa: S102
        assert out.getvalue().splitlines() == re.findall(r"^# (.*)$", block, re.MULTILINE), block
        ran += 1
    assert ran >= 2
