"""Convolution as sums of shifted copies of the data (`shifted.c`): no windows are laid out.

Owns: the blocks, their memory and the offsets in it. A block is some rows of one example of one
group. Its padded data lies in the cache as planes, one a channel and a phase of the strides, so
that each element of the kernel reads one of them from some place on: out[y, x] is at place
y * pitch + x, and what stands there between the end of a row and the next one is never looked at.

Serves float32, lines and planes with eight outputs a group or more; all else is `convolution.py`'s.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.engine.backends.cpu.library import LIBRARY
from app.engine.context import Context
from gpugoblin.catalog.spec import Array
from gpugoblin.catalog.windows import Window

__all__ = ["SHIFTED", "Shifted", "convolve", "plan_blocks"]

OUTPUTS: Final = 8
"""Outputs of a tile of the loop; kernels are filled up to a multiple."""

BLOCK_ELEMENTS: Final = 1 << 18
"""Of a block's results: 1 MiB."""

MOST_ELEMENTS: Final = 1 << 19
"""Of a block's data: 2 MiB; what needs more goes another way."""

_NO_WINDOW: Final = Window(1, 1, 1, 0, 0)

MOST_WASTE: Final = 1.25
"""Places that are computed, over those that are wanted."""


class Shifted:
    """The loop."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._run = library.gg_shifted
        pointer, count = ctypes.c_void_p, ctypes.c_ssize_t
        self._run.argtypes = [pointer, pointer, count, pointer, count, count, pointer]
        self._run.restype = None
        library.gg_positions.restype = count
        self.positions = int(library.gg_positions())

    def run(self, base: Array, offsets: Array, weights: Array, out: Array) -> None:
        """out[o, p] = sum over k of weights[o // 8, k, o % 8] * base[offsets[k] + p], all float32
        and in C order, offsets int64; `out` has a multiple of `positions` columns."""
        self._run(
            *(base.ctypes.data, offsets.ctypes.data, offsets.size, weights.ctypes.data),
            *(out.shape[0], out.shape[1], out.ctypes.data),
        )


SHIFTED: Final = None if LIBRARY is None else Shifted(LIBRARY)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of one convolution of a plane. `step` rows of results a block; `rows` and `pitch`
    are those of a plane of its data."""

    windows: tuple[Window, Window]
    channels: int
    step: int
    rows: int
    pitch: int

    @property
    def phases(self) -> tuple[int, int]:
        return self.windows[0].stride, self.windows[1].stride

    @property
    def elements(self) -> int:
        return math.prod(self.phases) * self.channels * self.rows * self.pitch

    def offsets(self) -> Array:
        """Where each element of the kernel begins to read."""
        down, across = self.windows
        plane = self.rows * self.pitch
        channel, y, x = np.ogrid[: self.channels, : down.extent, : across.extent]
        phase_y, row = (y * down.dilation) % down.stride, (y * down.dilation) // down.stride
        phase_x = (x * across.dilation) % across.stride
        column = (x * across.dilation) // across.stride
        planes = (phase_y * across.stride + phase_x) * self.channels + channel
        return np.ascontiguousarray((planes * plane + row * self.pitch + column), np.int64)

    def laid(self, data: Array, first: int, slack: int) -> Array:
        """The data [channels, rows, columns], not padded yet, that the results from row `first` on
        need, as planes, and zeros behind."""
        down, across = self.windows
        room = np.zeros(self.elements + slack, np.float32)
        shape = (down.stride, across.stride, self.channels, self.rows, self.pitch)
        planes = room[: self.elements].reshape(shape)
        for y in range(down.stride):
            for x in range(across.stride):
                to_rows, rows = _phase(first * down.stride + y, self.rows, data.shape[1], down)
                to_columns, columns = _phase(x, self.pitch, data.shape[2], across)
                planes[y, x][:, to_rows, to_columns] = data[:, rows, columns]
        return room


def _phase(start: int, count: int, extent: int, window: Window) -> tuple[slice, slice]:
    """Of the places start, start + stride, ... of the padded axis, `count` in all: which of them
    are elements, and which elements those are."""
    stride, low = window.stride, window.low
    first = max(0, -(-(low - start) // stride))
    last = min(count, -(-(low + extent - start) // stride))
    last = max(first, last)
    begin = start + first * stride - low
    return slice(first, last), slice(begin, begin + max(0, (last - first - 1) * stride + 1), stride)


def plan_blocks(
    data: tuple[int, ...],
    kernel: tuple[int, ...],
    out: Array,
    windows: Sequence[Window],
    groups: int,
) -> _Blocks | None:
    """How a convolution is cut, for shapes as `conv` has them; None for what this loop does not
    serve, or not well."""
    outputs = kernel[0] // groups
    extents = math.prod(window.extent for window in windows)
    if out.dtype != np.float32 or len(data) not in (3, 4) or outputs < OUTPUTS or extents < 2:
        return None
    if any(window.between for window in windows):
        return None
    down, across = windows if len(windows) == 2 else (_NO_WINDOW, windows[0])
    tall = 1 if len(data) == 3 else out.shape[2]
    pitch = -(-(data[-1] + across.low + across.high) // across.stride)
    if pitch > MOST_WASTE * out.shape[-1]:
        return None
    step = max(1, min(tall, BLOCK_ELEMENTS // (outputs * pitch)))
    rows = step + (down.reach - 1) // down.stride
    found = _Blocks((down, across), kernel[1], step, rows, pitch)
    return found if found.elements <= MOST_ELEMENTS else None


def _packed(kernel: Array, groups: int) -> Array:
    """[groups, outputs / 8, inner, 8], filled up with zeros."""
    outputs = kernel.shape[0] // groups
    inner = math.prod(kernel.shape[1:])
    whole = -(-outputs // OUTPUTS)
    packed = np.zeros((groups, whole, inner, OUTPUTS), np.float32)
    rows = kernel.reshape(groups, outputs, inner)
    for place in range(min(OUTPUTS, outputs)):
        part = rows[:, place::OUTPUTS]
        packed[:, : part.shape[1], :, place] = part
    return packed


def convolve(
    shifted: Shifted,
    blocks: _Blocks,
    data: Array,
    kernel: Array,
    out: Array,
    groups: int,
    context: Context,
) -> None:
    """`out` of `conv`."""
    if data.ndim == 3:
        data, out = data[:, :, None], out[:, :, None]
    outputs = kernel.shape[0] // groups
    weights, offsets = _packed(kernel, groups), blocks.offsets().reshape(-1)
    tall, across = out.shape[2:]
    pieces = -(-tall // blocks.step)
    vector = shifted.positions

    def block(number: int) -> None:
        which, piece = divmod(number, pieces)
        example, group = divmod(which, groups)
        first = piece * blocks.step
        rows = min(blocks.step, tall - first)
        count = -(-rows * blocks.pitch // vector) * vector
        source = data[example, group * blocks.channels : (group + 1) * blocks.channels]
        base = blocks.laid(source, first, vector + blocks.windows[1].reach)
        found = np.empty((weights.shape[1] * OUTPUTS, count), np.float32)
        shifted.run(base, offsets, weights[group], found)
        shaped = found[:outputs, : rows * blocks.pitch].reshape(outputs, rows, blocks.pitch)
        target = out[example, group * outputs : (group + 1) * outputs, first : first + rows]
        np.copyto(target, shaped[:, :, :across])

    context.blocks(out.shape[0] * groups * pieces, block)
