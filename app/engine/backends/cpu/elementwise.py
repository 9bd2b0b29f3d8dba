"""Formulas on the processor: a chain of elementwise functions, block by block through the cache.

Owns: the instruction list of a fused group of formulas and its execution. Must not: make a
temporary larger than a block, or let the cut depend on the number of threads.

Every value of the chain lives in a register of one block (at most 32768 elements, 128 KiB of
float32), so that a chain of any length reads its inputs and writes its outputs once. The scalar
functions themselves are the catalog's; where one is a plain ufunc it writes into its register.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from app.engine.backends.cpu.blocks import cut
from app.engine.context import Context
from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array

__all__ = ["Chain", "ChainBuilder", "Operand"]

BLOCK_ELEMENTS: Final = 32 * 1024
MIN_BLOCK_ELEMENTS: Final = 1024
REGISTER_BUDGET_BYTES: Final = 2 * 1024 * 1024
WIDEST: Final = 8

Place = Literal["external", "register", "constant"]
Operand = tuple[Place, int]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """`store` (or -1): the output that gets a copy. `register`: where the result is kept."""

    run: Callable[[Sequence[Array], Array], None]
    operands: tuple[Operand, ...]
    register: int
    dtype: np.dtype[Any]
    store: int


@dataclass(frozen=True, slots=True)
class Chain:
    """A fused group, ready to run.

    Args:
        instructions: in order; a result that is an output and nothing else goes straight there.
        registers: how many blocks a thread needs at once.
    """

    instructions: tuple[_Instruction, ...]
    constants: tuple[Array, ...]
    registers: int

    @property
    def block_elements(self) -> int:
        fitting = REGISTER_BUDGET_BYTES // (max(1, self.registers) * WIDEST)
        return max(MIN_BLOCK_ELEMENTS, min(BLOCK_ELEMENTS, fitting))

    def run(self, externals: Sequence[Array], outputs: Sequence[Array], context: Context) -> None:
        """Fills `outputs`, all of one shape, from `externals` that broadcast against it."""
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

    def _registers(self, shape: tuple[int, ...]) -> list[Array | None]:
        """This thread's registers, viewed as each instruction's dtype and the box's shape."""
        frames: dict[tuple[int, ...], list[Array | None]] | None
        frames = getattr(self._local, "frames", None)
        if frames is None:
            count = self._chain.registers * self._chain.block_elements * WIDEST
            self._local.memory = np.empty(count, np.uint8)
            frames = self._local.frames = {}
        found = frames.get(shape)
        if found is None:
            found = frames[shape] = self._frame(shape, self._local.memory)
        return found

    def _frame(self, shape: tuple[int, ...], memory: Array) -> list[Array | None]:
        size = self._chain.block_elements * WIDEST
        count = 1
        for extent in shape:
            count *= extent
        frame: list[Array | None] = []
        for step in self._chain.instructions:
            if step.register < 0:
                frame.append(None)
                continue
            start = step.register * size
            bytes_ = memory[start : start + count * step.dtype.itemsize]
            frame.append(bytes_.view(step.dtype).reshape(shape))
        return frame

    def _block(self, block: int) -> None:
        box = self._boxes[block]
        externals = [array if array.ndim == 0 else array[box] for array in self._externals]
        outputs = [array[box] for array in self._outputs]
        frame = self._registers(outputs[0].shape)
        results: dict[int, Array] = {}
        constants = self._chain.constants
        for number, step in enumerate(self._chain.instructions):
            operands = [
                results[index]
                if place == "register"
                else externals[index]
                if place == "external"
                else constants[index]
                for place, index in step.operands
            ]
            target = frame[number]
            if target is None:
                step.run(operands, outputs[step.store])
                results[number] = outputs[step.store]
                continue
            step.run(operands, target)
            results[number] = target
            if step.store >= 0:
                np.copyto(outputs[step.store], target)


# -- instructions -------------------------------------------------------------------------------


def _ufunc(function: np.ufunc) -> Callable[[Sequence[Array], Array], None]:
    def run(operands: Sequence[Array], out: Array) -> None:
        function(*operands, out=out)

    return run


def _evaluated(function: Callable[..., Array]) -> Callable[[Sequence[Array], Array], None]:
    def run(operands: Sequence[Array], out: Array) -> None:
        np.copyto(out, function(*operands))

    return run


def _where(operands: Sequence[Array], out: Array) -> None:
    condition, first, second = operands
    np.copyto(out, second)
    np.copyto(out, first, where=condition)


def _copy(operands: Sequence[Array], out: Array) -> None:
    np.copyto(out, operands[0])


def cast_into(source: Array, out: Array) -> None:
    """`cast_array` into `out`, without a temporary where the change is a plain one."""
    if out.dtype.kind == "b":
        np.not_equal(source, 0, out=out)
    elif source.dtype.kind == "f" and out.dtype.kind == "i":
        np.copyto(out, cast_array(source, out.dtype.name))
    else:
        np.copyto(out, source, casting="unsafe")


def _cast(operands: Sequence[Array], out: Array) -> None:
    cast_into(operands[0], out)


def constant_array(bits: int, dtype: str) -> Array:
    """A scalar of a bit pattern."""
    kind = DTYPES[dtype]
    array = np.frombuffer(bits.to_bytes(kind.itemsize, "little"), kind).reshape(())
    return array


@dataclass(slots=True)
class _Draft:
    run: Callable[[Sequence[Array], Array], None]
    operands: tuple[Operand, ...]
    dtype: np.dtype[Any]
    in_place: bool
    store: int = -1


class ChainBuilder:
    """Collects formulas into one chain. Results are named by the numbers of instructions."""

    def __init__(self) -> None:
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
        run: Callable[[Sequence[Array], Array], None],
        operands: tuple[Operand, ...],
        dtype: str,
        in_place: bool,
    ) -> tuple[Operand, str]:
        self._drafts.append(_Draft(run, operands, DTYPES[dtype], in_place))
        return ("register", len(self._drafts) - 1), dtype

    def store(self, result: Operand, dtype: str, output: int) -> None:
        """Has a result written to output number `output`."""
        place, index = result
        if place != "register" or self._drafts[index].store >= 0:
            copied, _ = self._append(_copy, (result,), dtype, in_place=False)
            index = copied[1]
        self._drafts[index].store = output

    def build(self) -> Chain:
        """Assigns registers: a register is free again after the last use of what it holds."""
        last_use = {number: number for number in range(len(self._drafts))}
        for number, draft in enumerate(self._drafts):
            for place, index in draft.operands:
                if place == "register":
                    last_use[index] = number
        free: list[int] = []
        held: dict[int, int] = {}
        total = 0
        instructions = []
        for number, draft in enumerate(self._drafts):
            dying = {
                index
                for place, index in draft.operands
                if place == "register" and last_use[index] == number and index in held
            }
            if draft.in_place:
                free.extend(held.pop(index) for index in sorted(dying))
            register = -1
            if draft.store < 0 or last_use[number] > number:
                if not free:
                    free.append(total)
                    total += 1
                register = held[number] = free.pop()
            if not draft.in_place:
                free.extend(held.pop(index) for index in sorted(dying))
            instructions.append(
                _Instruction(draft.run, draft.operands, register, draft.dtype, draft.store)
            )
        return Chain(tuple(instructions), tuple(self._constants), total)
