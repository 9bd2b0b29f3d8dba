"""One capture is right at every batch size, or is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.torch.library import numpy_of
from gpugoblin.errors import CaptureError
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()
nn = torch.nn


class Images(nn.Module):  # type: ignore[misc, name-defined]
    """Convolution, batch norm while training (whose buffers it writes), and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
        )

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.layers(x), y)


def _images(batch: int) -> tuple[Any, Any]:
    return numbers(batch, 3, 6, 6, seed=batch), torch.arange(batch) % 5


def test_a_training_step_at_other_sizes() -> None:
    torch.manual_seed(0)
    model = Images().train()
    found = gg.capture(model, _images(4), batch=True)
    assert found.template is not None
    for batch in (1, 4, 9):
        bound = found.at(batch)
        (loss,) = bound.run(*_images(batch))[:1]
        with torch.no_grad():
            expected = model(*_images(batch))
        np.testing.assert_allclose(loss, numpy_of(expected), rtol=1e-5)


def test_the_graph_is_that_of_the_given_arguments() -> None:
    layer = nn.Linear(6, 2)
    found = gg.capture(layer, (numbers(3, 6),), batch=True)
    plain = gg.capture(layer, (numbers(3, 6),))
    assert found.graph == plain.graph
    assert found.at(8).graph.inputs[0].shape == (8, 6)
    assert plain.template is None
    with pytest.raises(CaptureError, match="without batch=True"):
        plain.at(8)


def _branches(x: Any) -> Any:
    return x.sum(1) if x.shape[0] > 6 else x.mean(1)


def _bends_later(x: Any) -> Any:
    return x.sum(1) if x.shape[0] > 10 else x.mean(1)


def _no_axis(x: Any) -> Any:
    return x + 1


@pytest.mark.parametrize("function", [_branches, _bends_later])
def test_a_program_that_looks_at_its_batch_is_refused(function: Any) -> None:
    with pytest.raises(CaptureError, match="for any batch"):
        gg.capture(function, (numbers(3, 2),), batch=True)


def test_a_program_without_a_batch_is_refused() -> None:
    with pytest.raises(CaptureError, match="no tensor argument has an axis"):
        gg.capture(_no_axis, (torch.tensor(1.0),), batch=True)
