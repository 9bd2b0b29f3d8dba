"""The page about torch runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.torch_programs import torch_or_skip

torch = torch_or_skip()

PAGE = Path(__file__).resolve().parents[5] / "docs" / "researcher" / "torch.md"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "train"}
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), names)  # noqa: S102
    assert names["y"].shape == (3,)  # type: ignore[attr-defined]
