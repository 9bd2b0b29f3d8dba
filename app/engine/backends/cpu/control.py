"""cond, scan and while_loop on the processor. Owns the kernels.

A body is compiled once a run and replayed; its memory is the node's scratch, which the catalog's
cost has room for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.engine.context import Context
from app.engine.program import Program
from gpugoblin.catalog.bodies import body_attribute
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.rules import bool_attribute, int_attribute
from gpugoblin.catalog.spec import DTYPES, Array, Attributes, TensorSpec
from gpugoblin.graph.memory import ALIGNMENT_BYTES

__all__ = ["cond", "scan", "while_loop"]


class _Body:
    """A compiled body with an arena of its own."""

    def __init__(self, graph: Graph, context: Context) -> None:
        # The compiler is given the backend, and the backend these kernels.
        from app.engine.backends.cpu.backend import CpuBackend
        from app.engine.compile import compile_graph

        self._program: Program = compile_graph(graph, CpuBackend())
        size = self._program.arena_bytes
        raw = np.empty(size + ALIGNMENT_BYTES, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT_BYTES
        self._arena = raw[start : start + size]
        self._context = context.inside()

    def rooms(self) -> list[Array]:
        """New arrays for the outputs."""
        return [_room(spec) for spec in self._program.output_specs]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._program.run(inputs, outputs, self._arena, self._context)


def _room(spec: TensorSpec) -> Array:
    return np.empty(spec.shape, DTYPES[spec.dtype])


def cond(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    branch = body_attribute(attributes, "if_true" if bool(reads[0]) else "if_false")
    _Body(branch, context).run([np.ascontiguousarray(one) for one in reads[1:]], writes)


def scan(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Two rooms for what is carried: a step reads one and writes the other."""
    carries, slices = int_attribute(attributes, "carries"), int_attribute(attributes, "slices")
    length = int_attribute(attributes, "length")
    body = _Body(body_attribute(attributes, "body"), context)
    contiguous = [np.ascontiguousarray(one) for one in reads]
    values: Sequence[Array] = contiguous[:carries]
    sliced, rest = contiguous[carries : carries + slices], contiguous[carries + slices :]
    rooms = body.rooms()[:carries], body.rooms()[:carries]
    steps = range(length)[::-1] if bool_attribute(attributes, "reverse") else range(length)
    for count, step in enumerate(steps):
        room = rooms[count % 2]
        inputs = [*values, *(array[step, ...] for array in sliced), *rest]
        body.run(inputs, [*room, *(array[step, ...] for array in writes[carries:])])
        values = room
    for out, value in zip(writes, values, strict=False):
        np.copyto(out, value)


def while_loop(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    carries, limit = int_attribute(attributes, "carries"), int_attribute(attributes, "limit")
    body = _Body(body_attribute(attributes, "body"), context)
    test = _Body(body_attribute(attributes, "test"), context)
    contiguous = [np.ascontiguousarray(one) for one in reads]
    values, rest = contiguous[:carries], contiguous[carries:]
    rooms = body.rooms(), body.rooms()
    (more,) = test.rooms()
    count = 0
    test.run([*values, *rest], [more])
    while more and count < limit:
        room = rooms[count % 2]
        body.run([*values, *rest], room)
        values = room
        count += 1
        test.run([*values, *rest], [more])
    for out, value in zip(writes[:carries], values, strict=True):
        np.copyto(out, value)
    writes[carries][...] = count
    writes[carries + 1][...] = not more
