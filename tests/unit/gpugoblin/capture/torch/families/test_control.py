"""Loops and branches that torch keeps whole stay one operator, with torch's values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import gpugoblin as gg
from gpugoblin.capture.torch.capturing import quietly
from gpugoblin.capture.torch.compare import difference, run_graph
from gpugoblin.capture.torch.isolation import isolated
from gpugoblin.capture.torch.library import load_tracers
from gpugoblin.capture.torch.lowering import lower_trace
from gpugoblin.capture.torch.running import eager, tensors_of
from gpugoblin.capture.torch.tracing import RUNGS
from gpugoblin.capture.torch.wrapping import make_program
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


def average(x: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    def step(carry: Any, value: Any) -> tuple[Any, Any]:
        carry = 0.9 * carry + 0.1 * value
        return carry, carry * 2.0

    return scan(step, torch.zeros(3), x)


def halved(x: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(
        lambda count, value: (count < 50) & (value.abs().sum() > 1e-3),
        lambda count, value: (count + 1, value / 2),
        (torch.zeros((), dtype=torch.int64), x * 1),
    )


def branched(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))


@pytest.mark.parametrize("rung", [0, 2], ids=[RUNGS[0][0], RUNGS[2][0]])
@pytest.mark.parametrize(
    ("f", "operator"), [(average, "scan"), (halved, "while_loop"), (branched, "cond")]
)
def test_a_loop_is_one_operator(f: Any, operator: str, rung: int) -> None:
    program = make_program(f, (numbers(4, 3),), {})

    def work() -> bytes:
        found = lower_trace(RUNGS[rung][1](program, frozenset()))
        results, expected = run_graph(found, tensors_of(program)), eager(program)
        gaps = [difference(one, two) for one, two in zip(results, expected, strict=True)]
        return msgspec.json.encode([[node.operator for node in found.graph.nodes], max(gaps)])

    load_tracers()
    operators, gap = msgspec.json.decode(isolated(lambda: quietly(work), operator, 60.0))
    assert operator in operators
    assert gap < 1e-6


def halved_until(x: Any) -> Any:
    """A loop whose test does not count."""
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda v: v.abs().sum() > 1e-3, lambda v: (v / 2,), (x * 1,))


def halved_by_a_scan(x: Any) -> Any:
    """What is to be written instead: enough steps, which keep their values once the test fails."""
    from torch._higher_order_ops.scan import scan

    def step(v: Any, place: Any) -> tuple[Any, Any]:
        return torch.where(v.abs().sum() > 1e-3, v / 2, v), place * 1

    return scan(step, x * 1, torch.zeros(50, 1))[0]


@pytest.mark.slow
def test_a_loop_that_counts_has_a_gradient_and_another_is_refused_with_what_works() -> None:
    x = numbers(4, 3)
    for f in (halved, halved_by_a_scan):
        found = gg.check(f, x)
        assert found.ok, str(found)
        assert found.gradient_error is not None
    (loop,) = (n for n in gg.capture(halved, (x,)).graph.nodes if n.operator == "while_loop")
    assert loop.attrs["limit"] == 50
    found = gg.check(halved_until, x)
    assert found.captured
    assert "1048576 steps" in found.gradient_refusal
    assert "write it as a scan" in found.gradient_refusal
    assert "test_control.py:" in found.gradient_refusal
