"""gg.check: right values and gradients are told, and a missing operator is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from tests.helpers.torch_programs import lowered, numbers, torch_or_skip

torch = torch_or_skip()


class Rescaled(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A norm in float32 between layers of 16 bits, as in language models."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.embedding = torch.nn.Embedding(10, 8)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        size = x.float().pow(2).mean(-1, keepdim=True)
        return self.linear((x.float() * torch.rsqrt(size + 1e-6)).to(x.dtype))


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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_module_of_16_bits_is_computed_in_float32(dtype: str) -> None:
    torch.manual_seed(0)
    half = getattr(torch, dtype)
    module = Rescaled().to(half)
    tokens = torch.arange(6).reshape(2, 3)
    found = gg.check(module, tokens)
    assert found.ok, str(found)
    assert found.gradient_error is not None
    # Closer to float64 than eager is, by what eager rounds in between.
    assert found.value_error is not None
    assert found.wide_error is not None
    assert found.wide_error <= found.value_bound / 2
    captured = gg.capture(module, (tokens,))
    assert {str(spec.dtype) for spec in captured.graph.inputs} == {"float32", "int64"}
    assert all(array.dtype == np.float32 for array in captured.weights.values())
    fresh = Rescaled().to(half)
    captured.load_into(fresh)
    assert torch.equal(fresh.linear.weight, module.linear.weight)


def test_a_cast_to_16_bits_rounds() -> None:
    def gap(x: Any) -> Any:
        return (x.to(torch.bfloat16).float() - x).abs() + x

    found = gg.check(gap, numbers(4, 8))
    assert found.ok, str(found)
    assert found.value_error == 0.0


def test_autocast_is_captured() -> None:
    def product(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w).float().sum(-1)

    found = gg.check(product, numbers(4, 8), numbers(8, 3, seed=1))
    assert found.ok, str(found)


def test_values_of_16_bits_are_not_taken_on_trust() -> None:
    """What is farther from float64 than the program itself is refused, as in 32 bits."""
    from gpugoblin.capture.torch import ladder
    from gpugoblin.capture.torch.wrapping import make_program

    x = numbers(4, 8).to(torch.bfloat16)
    program = make_program(torch.tanh, (x,), {})
    graph = lowered(torch.tanh, x)
    assert graph.halves
    wide = np.tanh(x.double().numpy())
    own = np.abs(torch.tanh(x).double().numpy() - wide).max()
    right = wide.astype(np.float32)
    assert ladder.own_bound(program, graph, [right]) > own
    assert ladder.own_bound(program, graph, [right + np.float32(2 * own)]) == ladder.TOLERANCE


@pytest.mark.slow
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
