"""Small torch programs lowered in this process: what tests of single rules use.

The ladder is not climbed: the operators of the program reach the lowering table as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpugoblin.capture.torch.compare import difference, run_graph
from gpugoblin.capture.torch.library import numpy_of
from gpugoblin.capture.torch.lowering import LoweredGraph, lower_trace
from gpugoblin.capture.torch.tracing import Slot, Traced
from gpugoblin.capture.torch.wrapping import flat_tensors
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret

__all__ = ["NO_TORCH", "assert_gradients", "assert_same", "lowered", "numbers", "torch_or_skip"]

NO_TORCH = "torch is not installed (GPUGOBLIN_TORCH=1 scripts/test installs it)"


def torch_or_skip() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torch", reason=NO_TORCH)


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normally distributed float32 numbers."""
    generator = np.random.default_rng(seed)
    return torch_or_skip().from_numpy(generator.standard_normal(shape).astype(np.float32))


def lowered(f: Callable[..., Any], *arguments: Any) -> LoweredGraph:
    """The catalog graph of a function, by the plainest trace."""
    from torch.fx.experimental.proxy_tensor import make_fx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make_fx(lambda *given: flat_tensors(f(*given)), record_stack_traces=True)(
            *arguments
        )
    module.graph.eliminate_dead_code()
    slots = [Slot("argument", f"a{n}", one) for n, one in enumerate(arguments)]
    count = len(module.graph.output_node().args[0])
    return lower_trace(Traced(module.graph, tuple(slots), ("",) * count, module))


def assert_same(f: Callable[..., Any], *arguments: Any, tolerance: float = 1e-6) -> LoweredGraph:
    """The graph gives what the function gives."""
    found = lowered(f, *arguments)
    assert not found.random
    tensors = {("argument", f"a{n}"): one for n, one in enumerate(arguments)}
    expected = [numpy_of(one) for one in flat_tensors(f(*arguments))]
    results = run_graph(found, tensors)
    assert len(results) == len(expected)
    for one, two in zip(results, expected, strict=True):
        assert one.dtype == two.dtype
        assert difference(one, two) <= tolerance
    return found


def assert_gradients(
    f: Callable[..., Any], *arguments: Any, tolerance: float = 1e-5, of: Sequence[int] = (0,)
) -> None:
    """The graph's gradients are torch's, by float arguments, with a random seed."""
    torch = torch_or_skip()
    found = lowered(f, *arguments)
    wrt = [n for n, one in enumerate(arguments) if one.is_floating_point()]
    leaves = [
        one.clone().requires_grad_(True) if n in wrt else one for n, one in enumerate(arguments)
    ]
    outputs = [flat_tensors(f(*leaves))[place] for place in of]
    seeds = [numbers(*one.shape, seed=7) for one in outputs]
    expected = torch.autograd.grad(outputs, [leaves[n] for n in wrt], seeds, allow_unused=True)
    graph = gradient(found.graph, wrt, of=of, seeded=True)
    given = [*(numpy_of(one) for one in arguments), *(numpy_of(seed) for seed in seeds)]
    results = interpret(graph, given)[len(found.graph.outputs) :]
    for n, one, two in zip(wrt, results, expected, strict=True):
        truth = np.zeros(one.shape, one.dtype) if two is None else numpy_of(two)
        assert difference(one, truth) <= tolerance, f"argument {n}"
