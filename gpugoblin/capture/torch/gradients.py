"""Gradients of a captured program beside PyTorch's own, in float32 and in float64.

Owns: that comparison. The seed of each result is the same random tensor on all sides. Runs in the
child process: the default dtype is changed for the float64 run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpugoblin.capture.torch.compare import graph_inputs
from gpugoblin.capture.torch.library import load_torch, numpy_of
from gpugoblin.capture.torch.lowering import LoweredGraph
from gpugoblin.capture.torch.running import leaves_of, tensors_of
from gpugoblin.capture.torch.signs import catalog_signs, needs_signs
from gpugoblin.capture.torch.wrapping import Program, flat_tensors
from gpugoblin.catalog.spec import Array
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph

Run = Callable[[Graph, Sequence[Array]], Sequence[Array]]

__all__ = ["GradientErrors", "compare_gradients"]

_LEAST_OF_HALVES: Final = 2.0**-7
"""Four roundings to bfloat16."""


@dataclass(frozen=True, slots=True)
class GradientErrors:
    """Over the largest gradient of all.

    Args:
        error: of the captured gradients, against float64 (or float32, when `wide` is False).
        torch_error: of PyTorch's own float32 gradients against float64.
        worst: the input with the largest error.
        wide: whether the program could be run in float64.
        least: the smallest bound that makes sense; more than 1e-5 for a program with casts to 16
            bits, which round PyTorch's gradients on their way back, also in float64.
    """

    error: float
    torch_error: float
    worst: str
    wide: bool
    least: float = 1e-5

    @property
    def bound(self) -> float:
        """What is good enough: 1e-5 of the largest gradient, or 4 times PyTorch's own error."""
        return max(self.least, 4.0 * self.torch_error if self.wide else 1e-4)

    @property
    def right(self) -> bool:
        return self.error <= self.bound


def compare_gradients(
    program: Program, lowered: LoweredGraph, run: Run = interpret
) -> GradientErrors | None:
    """None where there is nothing to differentiate, or PyTorch has no gradient.

    Args:
        run: computes a graph; the reference interpreter unless said otherwise.
    """
    names = [
        (place, one.kind, one.name)
        for place, one in enumerate(lowered.inputs)
        if one.kind in ("argument", "parameter")
        and not one.part
        and lowered.graph.inputs[place].dtype == "float32"
    ]
    wanted = [(kind, name) for _, kind, name in names]
    with _eager_attention(), catalog_signs(needs_signs(lowered.graph)):
        narrow = _torch_gradients(program, wanted, wide=False)
        if narrow is None:
            return None
        wide = _try_wide(program, wanted)
    ours = _our_gradients(program, lowered, [place for place, _, _ in names], run)
    truth = narrow if wide is None else wide
    largest = max((_size(one) for one in truth), default=0.0)
    scale = largest or 1.0
    errors = [_gap(one, two) / scale for one, two in zip(ours, truth, strict=True)]
    place = int(np.argmax(errors)) if errors else 0
    own = 0.0
    if wide is not None:
        own = max(_gap(one, two) / scale for one, two in zip(narrow, wide, strict=True))
    worst = wanted[place][1] if wanted else ""
    least = _LEAST_OF_HALVES if lowered.halves else 1e-5
    return GradientErrors(max(errors, default=0.0), own, worst, wide is not None, least)


def _size(array: Array) -> float:
    return float(np.abs(array).max()) if array.size else 0.0


def _gap(one: Array, two: Array) -> float:
    if one.shape != two.shape:
        return float("inf")
    if not one.size:
        return 0.0
    if not np.array_equal(np.isfinite(one), np.isfinite(two)):
        return float("inf")
    inside = np.isfinite(two)
    return float(np.abs(one[inside] - two[inside]).max()) if inside.any() else 0.0


def _seed(place: int, shape: Sequence[int]) -> Array:
    return np.random.default_rng(place).standard_normal(tuple(shape)).astype(np.float32)


def _our_gradients(
    program: Program, lowered: LoweredGraph, wrt: Sequence[int], run: Run
) -> list[Array]:
    specs = lowered.graph.output_specs()
    of, seeds, first = [], [], 0
    for place, count in enumerate(lowered.outputs):
        if count == 1 and specs[first].dtype == "float32":
            of.append(first)
            seeds.append(_seed(place, specs[first].shape))
        first += count
    graph = gradient(lowered.graph, wrt, of=of, seeded=True)
    inputs = graph_inputs(lowered.inputs, lowered.graph.inputs, tensors_of(program))
    found = run(graph, [*inputs, *seeds])
    return list(found[len(lowered.graph.outputs) :])


def _torch_gradients(
    program: Program, wanted: Sequence[tuple[str, str]], *, wide: bool
) -> list[Array] | None:
    torch = load_torch()
    module, given, tensors = leaves_of(program, wide)
    outputs = module(*given[0], **given[1])
    seeded = [
        (one, torch.from_numpy(_seed(place, one.shape)).to(one.dtype))
        for place, one in enumerate(flat_tensors(outputs))
        if one.is_floating_point() and one.requires_grad
    ]
    leaves = [tensors[one] for one in wanted]
    if not seeded or not leaves:
        return None
    # `backward` and not `grad`: reentrant checkpoints know no other.
    torch.autograd.backward([one for one, _ in seeded], [two for _, two in seeded])
    return [
        np.zeros(tuple(leaf.shape)) if leaf.grad is None else np.asarray(numpy_of(leaf.grad))
        for leaf in leaves
    ]


def _try_wide(program: Program, wanted: Sequence[tuple[str, str]]) -> list[Array] | None:
    """In float64, for programs that say no dtype."""
    torch = load_torch()
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = _torch_gradients(program, wanted, wide=True)
    except Exception:
        # A program that names float32 somewhere cannot be run in float64: float32 then counts.
        return None
    finally:
        torch.set_default_dtype(kept)
    if found is None or any(not np.isfinite(one).all() for one in found):
        return None
    return found


@contextlib.contextmanager
def _eager_attention() -> Iterator[None]:
    """torch's fused attention of float32 has a backward of its own, less exact than the plain."""
    torch = load_torch()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        yield
