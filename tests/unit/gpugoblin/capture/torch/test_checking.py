"""gg.check: right values and gradients are told, and a missing operator is reported."""

from __future__ import annotations

import json
from pathlib import Path

import gpugoblin as gg
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


def test_values_and_gradients_of_attention() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    found = gg.check(layer, numbers(2, 5, 8))
    assert found.ok, str(found)
    assert found.gradient_error is not None
    assert found.gradient_error < 1e-5
    assert found.value_error is not None
    assert found.value_error < 1e-5
    assert "captured by export" in str(found)


def test_a_missing_operator_is_reported_without_the_program(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    found = gg.check(lambda x: torch.special.bessel_j0(x), numbers(3), report=path)
    assert not found.ok
    assert found.code == "operator_missing"
    assert "bessel_j0" in found.operator
    assert "test_checking.py" in found.line
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["operands"] == "float32[3]"
    assert "test_checking" not in path.read_text(encoding="utf-8")
