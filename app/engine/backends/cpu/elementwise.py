"""Formulas on the processor: a chain of elementwise functions, block by block through the cache.

Owns: the instruction list of a fused group of formulas and its execution. Must not: make a
temporary larger than a block, or let the cut depend on the number of threads.

Every value of the chain lives in a register of one block (at most 65536 elements, 256 KiB of
float32), so that a chain of any length reads its inputs and writes its outputs once. The scalar
functions themselves are the catalog's; where one is a plain ufunc it writes into its register.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.casting import cast_array, decoded
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array

__all__ = ["Chain", "ChainBuilder", "Operand"]

BLOCK_ELEMENTS: Final = 64 * 1024
MIN_BLOCK_ELEMENTS: Final = 1024
REGISTER_BUDGET_BYTES: Final = 4 * 1024 * 1024
WIDEST: Final = 8

Place = Literal["external", "register", "constant"]
Operand = tuple[Place, int]
Values = list[Array]
"""What a block works on: externals, then constants, then one result an instruction, then outputs.
A result that goes straight to an output has its place among the outputs instead."""


@dataclass(frozen=True, slots=True)
class _Register:
    """Where in `Values` the result of an instruction stands, and in which block of memory."""

    place: int
    number: int
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Chain:
    """A fused group, ready to run.

    Args:
        steps: in order; each reads and writes `Values` at places that are bound in it.
        outputs: the place of the first output in `Values`, whose length is `places`.
        blocks: how many blocks of memory a thread needs for the registers.
    """

    steps: tuple[Callable[[Values], object], ...]
    constants: tuple[Array, ...]
    registers: tuple[_Register, ...]
    outputs: int
    places: int
    blocks: int

    @property
    def block_elements(self) -> int:
        fitting = REGISTER_BUDGET_BYTES // (max(1, self.blocks) * WIDEST)
        return max(MIN_BLOCK_ELEMENTS, min(BLOCK_ELEMENTS, fitting))

    def run(self, externals: Sequence[Array], outputs: Sequence[Array], context: Context) -> None:
        """Fills `outputs`, all of one shape, from `externals` that broadcast against it."""
        if not outputs:
            return  # a decomposition may make what nobody reads
        shape = outputs[0].shape
        if any(extent == 0 for extent in shape):
            return
        _Run(self, *_flattened(externals, outputs, shape), context).start()


def _flattened(
    externals: Sequence[Array], outputs: Sequence[Array], shape: tuple[int, ...]
) -> tuple[list[Array], list[Array]]:
    """One axis where all operands allow it, else operands broadcast to `shape`."""

    def plain(array: Array) -> bool:
        return array.size == 1 or (array.shape == shape and array.flags.c_contiguous)

    if all(map(plain, externals)):
        flat = [array.reshape(()) if array.size == 1 else array.reshape(-1) for array in externals]
        return flat, [array.reshape(-1) for array in outputs]
    spread = [
        array.reshape(()) if array.size == 1 else np.broadcast_to(array, shape)
        for array in externals
    ]
    return spread, list(outputs)


class _Run:
    """One evaluation of a chain over all blocks."""

    def __init__(
        self, chain: Chain, externals: list[Array], outputs: list[Array], context: Context
    ) -> None:
        self._chain = chain
        self._externals = externals
        self._outputs = outputs
        self._context = context
        self._boxes = cut(outputs[0].shape, chain.block_elements)
        self._local = threading.local()

    def start(self) -> None:
        self._context.blocks(len(self._boxes), self._block)

    def _values(self, shape: tuple[int, ...]) -> Values:
        """This thread's values for boxes of this shape; externals and outputs are filled in."""
        frames: dict[tuple[int, ...], Values] | None = getattr(self._local, "frames", None)
        chain = self._chain
        if frames is None:
            self._local.memory = np.empty(chain.blocks * chain.block_elements * WIDEST, np.uint8)
            frames = self._local.frames = {}
        found = frames.get(shape)
        if found is None:
            found = frames[shape] = self._frame(shape, self._local.memory)
        return found

    def _frame(self, shape: tuple[int, ...], memory: Array) -> Values:
        chain = self._chain
        size = chain.block_elements * WIDEST
        count = math.prod(shape)
        frame: Values = [_NOTHING] * chain.places
        first = len(self._externals)
        frame[first : first + len(chain.constants)] = chain.constants
        for register in chain.registers:
            start = register.number * size
            bytes_ = memory[start : start + count * register.dtype.itemsize]
            frame[register.place] = bytes_.view(register.dtype).reshape(shape)
        return frame

    def _block(self, block: int) -> None:
        box = self._boxes[block]
        outputs = [array[box] for array in self._outputs]
        values = self._values(outputs[0].shape)
        for place, array in enumerate(self._externals):
            values[place] = array if array.ndim == 0 else array[box]
        values[self._chain.outputs :] = outputs
        for step in self._chain.steps:
            step(values)


_NOTHING: Final = np.empty(0, np.uint8)

# -- instructions -------------------------------------------------------------------------------


Maker = Callable[[Sequence[int], int], Callable[[Values], object]]
"""Binds a function to the places of its operands and its result."""


def _ufunc(function: np.ufunc) -> Maker:
    def make(operands: Sequence[int], out: int) -> Callable[[Values], object]:
        if len(operands) == 1:
            (only,) = operands
            return lambda values: function(values[only], out=values[out])
        left, right = operands
        return lambda values: function(values[left], values[right], out=values[out])

    return make


def _evaluated(function: Callable[..., Array]) -> Maker:
    def make(operands: Sequence[int], out: int) -> Callable[[Values], object]:
        return lambda values: np.copyto(
            values[out], function(*(values[operand] for operand in operands))
        )

    return make


def _where(operands: Sequence[int], out: int) -> Callable[[Values], object]:
    condition, first, second = operands

    def select(values: Values) -> None:
        np.copyto(values[out], values[second])
        np.copyto(values[out], values[first], where=values[condition])

    return select


def _copy(operands: Sequence[int], out: int) -> Callable[[Values], object]:
    (only,) = operands
    return lambda values: np.copyto(values[out], values[only])


def _cast(operands: Sequence[int], out: int) -> Callable[[Values], object]:
    (only,) = operands
    return lambda values: cast_into(values[only], values[out])


def cast_into(source: Array, out: Array) -> None:
    """`cast_array` into `out`, without a temporary where the change is a plain one."""
    source = decoded(source)
    if out.dtype.kind in "V" or out.dtype == np.float16:
        np.copyto(out, cast_array(source, "float16" if out.dtype.kind == "f" else "bfloat16"))
    elif out.dtype.kind == "b":
        np.not_equal(source, 0, out=out)
    elif source.dtype.kind == "f" and out.dtype.kind in "iu":
        np.copyto(out, cast_array(source, out.dtype.name))
    else:
        np.copyto(out, source, casting="unsafe")


def constant_array(bits: int, dtype: str) -> Array:
    """A scalar of a bit pattern."""
    kind = DTYPES[dtype]
    array = np.frombuffer(bits.to_bytes(kind.itemsize, "little"), kind).reshape(())
    return array


@dataclass(slots=True)
class _Draft:
    make: Maker
    operands: tuple[Operand, ...]
    dtype: np.dtype[Any]
    in_place: bool
    store: int = -1


class ChainBuilder:
    """Collects formulas into one chain. Results are named by the numbers of instructions.

    Args:
        externals, outputs: how many arrays `Chain.run` will be given.
    """

    def __init__(self, externals: int, outputs: int) -> None:
        self._externals = externals
        self._outputs = outputs
        self._drafts: list[_Draft] = []
        self._constants: list[Array] = []

    def add(self, formula: Formula, inputs: Sequence[tuple[Operand, str]]) -> tuple[Operand, str]:
        """Adds a formula over operands with their dtypes; returns its result likewise."""
        known: list[tuple[Operand, str]] = []
        for node in formula.nodes:
            if node.function == "input":
                known.append(inputs[node.value])
                continue
            if node.function == "const":
                self._constants.append(constant_array(node.value, node.dtype))
                known.append((("constant", len(self._constants) - 1), node.dtype))
                continue
            operands = tuple(known[index][0] for index in node.operands)
            dtypes = [known[index][1] for index in node.operands]
            if node.function == "cast":
                known.append(self._append(_cast, operands, node.dtype, in_place=False))
                continue
            function = SCALARS[node.function]
            dtype = function.dtype_rule(dtypes)
            if dtype is None:
                raise TypeError(f"{node.function} of {', '.join(dtypes)}")
            if function.ufunc is not None:
                same = all(DTYPES[operand] == DTYPES[dtype] for operand in dtypes)
                known.append(self._append(_ufunc(function.ufunc), operands, dtype, same))
            elif node.function == "where":
                known.append(self._append(_where, operands, dtype, in_place=False))
            else:
                known.append(
                    self._append(_evaluated(function.evaluate), operands, dtype, in_place=True)
                )
        return known[-1]

    def _append(
        self,
        make: Maker,
        operands: tuple[Operand, ...],
        dtype: str,
        in_place: bool,
    ) -> tuple[Operand, str]:
        self._drafts.append(_Draft(make, operands, DTYPES[dtype], in_place))
        return ("register", len(self._drafts) - 1), dtype

    def store(self, result: Operand, dtype: str, output: int) -> None:
        """Has a result written to output number `output`."""
        place, index = result
        if place != "register" or self._drafts[index].store >= 0:
            copied, _ = self._append(_copy, (result,), dtype, in_place=False)
            index = copied[1]
        self._drafts[index].store = output

    def build(self) -> Chain:
        """Assigns registers: one is free again after the last use of what it holds."""
        first_result = self._externals + len(self._constants)
        first_output = first_result + len(self._drafts)
        numbers, blocks = self._registers()
        places = [
            first_result + number if numbers[number] >= 0 else first_output + draft.store
            for number, draft in enumerate(self._drafts)
        ]
        starts = {"external": 0, "constant": self._externals}
        steps: list[Callable[[Values], object]] = []
        registers = []
        for number, draft in enumerate(self._drafts):
            operands = [
                places[index] if place == "register" else starts[place] + index
                for place, index in draft.operands
            ]
            steps.append(draft.make(operands, places[number]))
            if numbers[number] >= 0:
                registers.append(_Register(places[number], numbers[number], draft.dtype))
                if draft.store >= 0:
                    steps.append(_copy([places[number]], first_output + draft.store))
        return Chain(
            tuple(steps),
            tuple(self._constants),
            tuple(registers),
            first_output,
            first_output + self._outputs,
            blocks,
        )

    def _registers(self) -> tuple[list[int], int]:
        """The block of memory of each result (-1: it goes straight to an output), and how many."""
        last_use = list(range(len(self._drafts)))
        for number, draft in enumerate(self._drafts):
            for place, index in draft.operands:
                if place == "register":
                    last_use[index] = number
        free: list[int] = []
        held: dict[int, int] = {}
        numbers: list[int] = []
        total = 0
        for number, draft in enumerate(self._drafts):
            dying = sorted(
                {
                    index
                    for place, index in draft.operands
                    if place == "register" and last_use[index] == number and index in held
                }
            )
            if draft.in_place:
                free.extend(held.pop(index) for index in dying)
            if draft.store >= 0 and last_use[number] == number:
                numbers.append(-1)
            else:
                if not free:
                    free.append(total)
                    total += 1
                held[number] = free.pop()
                numbers.append(held[number])
            if not draft.in_place:
                free.extend(held.pop(index) for index in dying)
        return numbers, total
