"""Calls of autograd.Functions are seen however `apply` was reached, and only while watched."""

from __future__ import annotations

import types
from typing import Any

import pytest

from gpugoblin.capture.torch.functions import Calls, Saved, _standing_in, trace_backward, watched
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


class Scaled(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, weight: Any) -> Any:
        kept = weight * factor
        ctx.save_for_backward(x, kept)
        ctx.factor = factor
        return x * kept

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        x, kept = ctx.saved_tensors
        return seed * kept, None, (seed * x).sum(0) * ctx.factor


bound = Scaled.apply


def test_a_call_is_written_down_with_what_its_backward_needs() -> None:
    calls: Calls = []
    x, weight = numbers(4, 3), numbers(3, seed=1)
    with watched(calls):
        found = bound(x, 2.0, weight)
    assert torch.equal(found, x * weight * 2)
    (call,) = calls
    assert (call.kind, call.given, call.count, call.outputs) == (Scaled, (0, 2), 3, (0,))
    # The result, two operands, and one tensor that is neither.
    assert [one.shape for one in call.metas] == [(4, 3), (4, 3), (3,), (3,)]
    assert call.context["saved_tensors"] == (Saved(1), Saved(3))
    assert "test_functions.py" in str(call.place)
    seed = numbers(4, 3, seed=2)
    shares = trace_backward(call, calls)(found, x, weight, weight * 2, seed)
    torch.testing.assert_close(shares[0], seed * weight * 2)
    torch.testing.assert_close(shares[1], (seed * x).sum(0) * 2)
    assert not call.once


def test_afterwards_torch_is_as_it_was() -> None:
    calls: Calls = []
    inner: Calls = []
    with watched(calls), watched(inner):
        bound(numbers(2, 3), 1.0, numbers(3))
    assert (len(calls), len(inner)) == (0, 1)
    with pytest.raises(KeyError), watched(calls):
        raise KeyError
    x = numbers(2, 3).requires_grad_()
    bound(x, 1.0, numbers(3)).sum().backward()
    assert not calls
    torch.testing.assert_close(x.grad, numbers(3).expand(2, 3))


def test_machinery_of_torch_is_left_alone() -> None:
    calls: Calls = []
    x = numbers(3).requires_grad_()
    with watched(calls):
        found = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True)
    found.sum().backward()
    assert not calls
    torch.testing.assert_close(x.grad, x.exp())


def test_a_torch_whose_apply_is_another_is_told() -> None:
    def other() -> types.CodeType:
        more = 1
        return (lambda: more).__code__

    with pytest.raises(RuntimeError, match="closes over"):
        _standing_in(other())
