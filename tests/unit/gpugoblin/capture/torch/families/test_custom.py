"""autograd.Functions keep their own derivative, or have none; never that of their forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError, GraphError
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


class Straight(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        return seed


class Reversed(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """The values are a view of the input; an argument is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        return -ctx.scale * seed, None


class Grown(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """With setup_context; saves its result, and its derivative is 1.5 times the right one."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        (result,) = ctx.saved_tensors
        return 1.5 * seed * result


class Several(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """Saves what is neither operand nor result, marks a result, and calls another Function in its
    backward; a share is broadcast."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        kept = torch.tanh(x)
        ctx.save_for_backward(kept, weight)
        ctx.more = {"x": [x]}
        places, without = x.argmax(-1), x * 2
        ctx.mark_non_differentiable(places, without)
        return kept * weight, places, without, x + 0

    @staticmethod
    def backward(ctx: Any, seed: Any, places: Any, without: Any, other: Any) -> Any:
        kept, weight = ctx.saved_tensors
        share = (seed * kept) * ctx.more["x"][0]
        return Reversed.apply(share, 0.25) + other + without, (seed * weight).sum(0, keepdim=True)


class Guarded(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """Its backward chooses by data."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        (x,) = ctx.saved_tensors
        if x.sum() > 0:
            return seed
        return seed * 3


class Written(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        return seed


class Once(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, seed: Any) -> Any:
        return 2 * seed * ctx.saved_tensors[0]


class Reading(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """No argument is a tensor that torch differentiates by."""

    @staticmethod
    def forward(ctx: Any, parts: Any) -> Any:
        return parts[0] * 2 + parts[1]

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        raise AssertionError(seed)


class Marked(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """Its only result has no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        found = x * 3
        ctx.mark_non_differentiable(found)
        return found

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        raise AssertionError(seed)


class Defaults(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """An argument by default, torch's other name of a backward, a seed that is not made up, and an
    attribute with a name of ours."""

    @staticmethod
    def forward(x: Any, scale: float = 2.0) -> Any:
        return x * scale, x.argmax()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.without, ctx.scale = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def vjp(ctx: Any, seed: Any, place: Any) -> Any:
        assert place is None
        return seed * ctx.scale * ctx.without, None


class Twice(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        found = x * 2
        return found, found

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first * 7 + second * 11


class Turned(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    """Of complex numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.real * 1

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        return torch.complex(5 * seed, 0 * seed)


straight = Straight.apply
"""Kept bound, as programs do."""


class Model(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.weight = torch.nn.Parameter(torch.tensor([0.3, -1.2, 2.0]))

    def forward(self, x: Any) -> Any:
        x = straight(3 * self.linear(x)) + Grown.apply(Reversed.apply(x, 0.5))
        a, places, b, c = Several.apply(x, self.weight)
        return a + b + c, places


def test_the_gradient_is_the_programs_own() -> None:
    torch.manual_seed(0)
    found = gg.check(Model(), numbers(4, 3))
    assert found.ok, str(found)
    assert found.gradient_error is not None


def test_what_torch_gives_no_derivative_has_none_and_the_rest_is_called_as_torch_does() -> None:
    def program(x: Any) -> Any:
        one, other = Twice.apply(x)
        without = Reading.apply([x, x * x]) + Marked.apply(x)
        return without + Defaults.apply(x)[0] + one + 2 * other

    found = gg.check(program, numbers(3))
    assert found.ok, str(found)
    assert found.gradient_error is not None


def test_the_gradient_by_complex_numbers_is_refused_and_not_that_of_the_forward() -> None:
    found = gg.check(lambda x: Turned.apply(torch.complex(x, 2 * x)), numbers(3))
    assert found.captured
    assert "the backward of Turned cannot be said" in found.gradient_refusal


def test_what_is_detached_in_float64_has_no_derivative() -> None:
    def program(x: Any) -> Any:
        wide = x.double()
        return (wide * wide.detach()).float()

    found = gg.check(program, numbers(3))
    assert found.ok, str(found)
    assert found.gradient_error is not None


def test_a_second_derivative_is_torchs() -> None:
    def energy(x: Any, weight: Any) -> Any:
        return (Several.apply(x, weight)[0] * Grown.apply(x)).sum()

    x, weight = numbers(2, 3), numbers(3, seed=1)
    captured = gg.capture(energy, (x, weight))
    second = gradient(gradient(captured.graph, [0, 1]), [0, 1], of=[1], seeded=True)
    seed = numbers(2, 3, seed=2)
    *_, by_x, by_weight = interpret(second, [x.numpy(), weight.numpy(), seed.numpy()])
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    first = torch.autograd.grad(energy(*leaves), leaves[0], create_graph=True)[0]
    expected = torch.autograd.grad(first, leaves, seed)
    np.testing.assert_allclose(by_x, expected[0].numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_weight, expected[1].numpy(), rtol=1e-4, atol=1e-5)


def test_a_backward_that_cannot_be_said_leaves_the_values_and_refuses_the_gradient() -> None:
    def program(x: Any) -> Any:
        return Guarded.apply(x) + 1

    x = numbers(3)
    captured = gg.capture(program, (x,))
    np.testing.assert_array_equal(captured.run(x)[0], (2 * x + 1).numpy())
    with pytest.raises(GraphError, match="not_differentiable"):
        gradient(captured.graph, [0], seeded=True)
    found = gg.check(program, x)
    assert not found.ok
    # The line that calls it, and the line in its backward, with what to write instead.
    assert "test_custom.py:" in found.gradient_refusal
    assert "return Guarded.apply(x) + 1" in found.gradient_refusal
    assert "if x.sum() > 0" in found.gradient_refusal
    assert "torch.where" in found.gradient_refusal


class Mapped(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.round(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        return seed


def test_under_vmap_the_values_are_taken_and_the_gradient_is_refused() -> None:
    found = gg.check(torch.vmap(lambda row: Mapped.apply(row) * 2, in_dims=1), 3 * numbers(4, 3))
    assert found.value_error == 0
    assert "no_gradient@1 of" in found.gradient_refusal
    assert "torch.vmap" in found.gradient_refusal


def test_what_writes_to_its_input_is_refused_with_the_line() -> None:
    with pytest.raises(CaptureError, match="mark_dirty") as raised:
        gg.capture(lambda x: Written.apply(x * 1), (numbers(3),))
    assert raised.value.code == "operator_refused"
    assert "ctx.mark_dirty(x)" in str(raised.value)


def test_what_torch_differentiates_once_is_differentiated_once() -> None:
    x = numbers(3)
    captured = gg.capture(lambda x: Once.apply(x).sum(), (x,))
    first = gradient(captured.graph, [0])
    np.testing.assert_allclose(interpret(first, [x.numpy()])[1], 2 * x.numpy(), rtol=1e-6)
    with pytest.raises(GraphError, match="not_differentiable"):
        gradient(first, [0], of=[1], seeded=True)


@pytest.mark.slow
def test_a_function_inside_of_a_loop_is_refused_and_not_lost() -> None:
    from torch._higher_order_ops.scan import scan

    def program(x: Any) -> Any:
        return scan(lambda c, v: (Straight.apply(c) + v, c * 2), torch.zeros(3), x)

    with pytest.raises(CaptureError, match="Straight; it must stand outside of scan") as raised:
        gg.capture(program, (numbers(4, 3),))
    assert "test_custom.py" in str(raised.value)
