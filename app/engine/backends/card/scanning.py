"""scan_reduce on a card: a group for each row, in tiles, each thread some neighbors.

Owns: its kernel. Chains of additions: eight elements, eight steps of the tree, one a tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel, Shared
from app.engine.backends.card.reduction import COMBINE, identity
from app.engine.backends.card.stages import THREADS, stage
from app.engine.backends.card.values import Value
from gpugoblin.catalog.rules import bool_attribute, int_attribute, text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["scan_reduce"]

NEIGHBORS: Final = 8


def scan_reduce(
    attributes: Attributes, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Emission:
    spec = inputs[0]
    if spec.count == 0:
        return Emission(())
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    extent, after = spec.shape[axis], math.prod(spec.shape[axis + 1 :])
    rows = spec.count // extent
    combine, kind = COMBINE[function], spec.dtype
    kernel = Kernel(2, THREADS)
    shared = kernel.shared(kind, THREADS)
    row, local = kernel.flat_group(), kernel.local()
    neutral = kernel.number(kind, identity(function, kind))
    backwards = bool_attribute(attributes, "reverse")
    with kernel.when(row < rows):
        base = (row // after) * (extent * after) + row % after

        def place(number: Value) -> Value:
            turned = kernel.number("uint32", extent - 1) - number if backwards else number
            return base + turned * after

        carry = kernel.variable(kind, neutral)
        held = [kernel.variable(kind) for _ in range(NEIGHBORS)]
        with kernel.loop(0, extent, THREADS * NEIGHBORS) as tile:
            first = tile + local * NEIGHBORS
            running = kernel.variable(kind)
            running.set(neutral)
            for offset, slot in enumerate(held):
                with kernel.when((first + offset) < extent):
                    value = kernel.load(kind, 0, place(first + offset))
                    running.set(combine(running.get(), value))
                slot.set(running.get())
            shared.set(local, running.get())
            _ladder(kernel, shared, function)
            before = kernel.variable(kind)
            before.set(carry.get())
            with kernel.when(local > 0):
                before.set(combine(carry.get(), shared.get(local - 1)))
            for offset, slot in enumerate(held):
                with kernel.when((first + offset) < extent):
                    value = combine(before.get(), slot.get())
                    kernel.store(1, place(first + offset), value)
            carry.set(combine(carry.get(), shared.get(THREADS - 1)))
            kernel.barrier()
    return Emission((stage(kernel, rows),))


def _ladder(kernel: Kernel, shared: Shared, function: str) -> None:
    """The running results over the threads of a group, in place."""
    local = kernel.local()
    step = 1
    while step < THREADS:
        kernel.barrier()
        value = shared.get(local)
        there = kernel.select(local >= step, local - step, kernel.number("uint32", 0))
        joined = COMBINE[function](shared.get(there), value)
        kernel.barrier()
        shared.set(local, kernel.select(local >= step, joined, value))
        step *= 2
    kernel.barrier()
