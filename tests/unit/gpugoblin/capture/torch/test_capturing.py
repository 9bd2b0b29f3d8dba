"""gg.capture: the graph is the program, weights go out and come back by name, faults have lines."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A tied weight, a buffer, an update in place and a result in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.ones(4))

    def forward(self, ids: object) -> dict[str, object]:
        hidden = self.embed(ids) + self.shift
        hidden[0] *= 2
        return {"scores": self.head(hidden), "cache": None, "hidden": [hidden]}


def test_a_module_is_captured_and_its_weights_come_back() -> None:
    torch.manual_seed(0)
    module, ids = Tied(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    found = gg.capture(module, (ids,))
    assert found.parameters == ("embed.weight",)
    assert [one.kind for one in found.inputs] == ["argument", "parameter", "buffer"]
    expected = module(ids)["scores"].detach().numpy()
    scores, hidden = found.run(ids)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    assert hidden.shape == (2, 3, 4)
    assert {place.file for place in found.lines.values()} == {__file__}
    doubled = {"embed.weight": 2 * found.weights["embed.weight"]}
    found.load_into(module, doubled)
    again = found.run(ids, weights=doubled)[0]
    np.testing.assert_allclose(again, module(ids)["scores"].detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(CaptureError) as caught:
        found.load_into(module, {"embed.weight": np.zeros((3, 4), np.float32)})
    assert caught.value.code == "weights_misfit"
    with pytest.raises(CaptureError, match="none of that name"):
        found.load_into(module, {"other": np.zeros(1, np.float32)})
    with pytest.raises(CaptureError, match="1 tensor arguments are wanted"):
        found.run()


def mask_by_data(x: object) -> object:
    return x[x > 0]  # type: ignore[index, operator]


def constant_nan(x: object) -> object:
    return torch.where(x > 0, x, float("nan"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("f", "text", "words"),
    [
        (mask_by_data, "return x[x > 0]", "as the data says"),
        (constant_nan, "return torch.where(x > 0", "NaN"),
    ],
)
def test_what_is_refused_has_the_line(f: object, text: str, words: str) -> None:
    with pytest.raises(CaptureError) as caught:
        gg.capture(f, (numbers(4),))
    assert caught.value.code == "operator_refused"
    assert "test_capturing.py:" in str(caught.value)
    assert text in str(caught.value)
    assert words in str(caught.value)


def test_torch_is_not_spoiled_by_a_failed_capture() -> None:
    def branches(x: object) -> object:
        return x * 2 if x.sum() > 0 else x  # type: ignore[attr-defined, operator]

    with pytest.raises(CaptureError) as caught:
        gg.capture(branches, (numbers(4),))
    assert caught.value.code == "branch_on_data"
    assert torch.randn(3, generator=torch.Generator().manual_seed(0)).shape == (3,)
