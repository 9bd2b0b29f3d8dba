"""Losses of torch modules as graphs: what is trained, what is carried, what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.capture.caller import NOWHERE
from gpugoblin.client.train_model import TrainModel, from_torch, is_torch
from gpugoblin.errors import ClientError
from gpugoblin.graph.interpret import interpret
from gpugoblin.plan.microbatches import Slot, micro_batch
from tests.helpers.torch_programs import torch_or_skip

torch = torch_or_skip()
nn, F = torch.nn, torch.nn.functional

RNG = np.random.default_rng(3)
X = RNG.standard_normal((8, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 8)


def gradients(model: Any, loss: Any, *batch: Any) -> dict[str, Any]:
    """The reference: PyTorch's own."""
    model.zero_grad()
    loss(model, *(torch.from_numpy(one) for one in batch)).backward()
    return {
        name: tensor.grad.numpy().copy()
        for name, tensor in model.named_parameters()
        if tensor.grad is not None
    }


def ours(made: TrainModel, *batch: Any) -> tuple[dict[str, Any], list[Any]]:
    slots = [Slot(one.kind, one.array, one.offset) for one in made.slots]
    found = micro_batch(made.graph, slots, made.updates)
    flat = [made.flat[kind] for kind in found.carried]
    loss, slope, *rest = interpret(found.graph, [*flat, *batch, *made.fixed])
    named = {
        one.name: slope[one.offset : one.offset + int(np.prod(one.shape))].reshape(one.shape)
        for one in made.tensors
        if one.kind == "parameter"
    }
    return named, [loss, *rest]


def agree(made: TrainModel, expected: dict[str, Any], *batch: Any) -> list[Any]:
    found, rest = ours(made, *batch)
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
    return rest


def test_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3))
    made = from_torch(model, F.cross_entropy, (X, Y), NOWHERE)
    expected = gradients(model, lambda m, x, y: F.cross_entropy(m(x), y), X, Y)
    agree(made, expected, X, Y)
    assert made.fixed == ()


def test_frozen_and_tied_weights_and_a_loss_of_the_model() -> None:
    class Tied(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 5)
            self.second = nn.Linear(5, 5, bias=False)
            self.second.weight = self.first.weight
            self.frozen = nn.Linear(5, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.frozen(torch.tanh(self.second(torch.tanh(self.first(x)))))

    torch.manual_seed(1)
    model = Tied()

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y) + 0.1 * model.first.weight.square().mean()

    made = from_torch(model, loss, (X, Y), NOWHERE)
    agree(made, gradients(model, loss, X, Y), X, Y)
    assert [one.name for one in made.tensors] == ["first.weight", "first.bias"]
    assert sum(one.size for one in made.fixed) == 18


def test_batch_statistics_are_carried() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    made = from_torch(model, F.cross_entropy, (X, Y), NOWHERE)
    kinds = {one.name: one.kind for one in made.tensors}
    assert kinds["1.running_mean"] == kinds["1.running_var"] == "buffer"
    assert kinds["1.num_batches_tracked"] == "count"
    expected = gradients(model, lambda m, x, y: F.cross_entropy(m(x), y), X, Y)
    _, buffers, counts = agree(made, expected, X, Y)
    assert counts.tolist() == [1]
    want = {name: buffer.numpy() for name, buffer in model.named_buffers()}
    for one in made.tensors:
        if one.kind == "buffer":
            part = buffers[one.offset : one.offset + 4]
            np.testing.assert_allclose(part, want[one.name], rtol=1e-5, err_msg=one.name)


def test_an_array_that_the_loss_does_not_read() -> None:
    model = nn.Linear(5, 1)
    made = from_torch(model, lambda model, x, y: model(x).mean(), (X, Y), NOWHERE)
    assert sorted(slot.array for slot in made.slots if slot.kind == "data") == [0, 1]


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        (lambda output, y: F.cross_entropy(output, y, reduction="none"), "loss_refused"),
        (lambda output, y: (output, y), "loss_refused"),
    ],
)
def test_losses_that_are_not_one_number(loss: Any, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        from_torch(nn.Linear(5, 3), loss, (X, Y), NOWHERE)
    assert caught.value.code == code


def test_nothing_to_train() -> None:
    model = nn.Linear(5, 3)
    model.requires_grad_(False)
    with pytest.raises(ClientError) as caught:
        from_torch(model, F.cross_entropy, (X, Y), NOWHERE)
    assert caught.value.code == "model_not_trainable"


def test_what_is_a_module() -> None:
    assert is_torch(nn.Linear(1, 1))
    assert not is_torch(lambda x: x)
    assert not is_torch(torch.zeros(1))


def test_an_evaluation_reads_the_running_statistics_of_its_training() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model[2].bias.requires_grad_(False)
    made = from_torch(model, F.cross_entropy, (X, Y), NOWHERE)
    model.eval()
    held = from_torch(model, F.cross_entropy, (X, Y), NOWHERE, made)
    places = {(one.kind, one.offset) for one in made.tensors}
    own = {(one.kind, one.offset) for one in held.slots if one.kind in ("parameter", "buffer")}
    assert own == {one for one in places if one[0] != "count"}
    # What never changes is there once.
    assert [one.tolist() for one in held.fixed] == [one.tolist() for one in made.fixed]
    # A constant that only the evaluation has comes behind those of the training.
    loss = lambda output, y: F.cross_entropy(output + torch.arange(3.0), y)  # noqa: E731 - short
    other = from_torch(model, loss, (X, Y), NOWHERE, made)
    assert [one.size for one in made.fixed] == [3]
    for one, two in zip(made.fixed, other.fixed, strict=False):
        assert np.array_equal(one, two[: one.size])
