"""The hands of a lowering rule: a builder, torch's promotion of dtypes, and short words.

Owns: casting operands to their common dtype, constants, and the movement that every family needs.
Must not: know any one ATen operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpugoblin.capture.torch.functions import Calls
from gpugoblin.capture.torch.library import HALVES, dtype_name, load_torch, numpy_of
from gpugoblin.capture.torch.values import Pair, Scalar, Value
from gpugoblin.catalog import building
from gpugoblin.catalog.composites.custom import stopping
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array, AttrValue, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

__all__ = ["NARROW", "Context", "Unsupported", "normal_axes", "normal_axis"]


NARROW: Final = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767)}
"""Integers that int32 stands for while the catalog lacks them, with their ranges."""


class Unsupported(Exception):
    """What the catalog cannot say: the reason, for the message that names the line."""


def normal_axis(axis: int, rank: int) -> int:
    """An axis from 0, for one that may count from the end; a scalar has one axis, as in torch."""
    return axis % max(1, rank)


def normal_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Rising axes; none or nothing means all."""
    if axes is None or (not isinstance(axes, int) and len(axes) == 0):
        return tuple(range(rank))
    given = [axes] if isinstance(axes, int) else axes
    return tuple(sorted({normal_axis(axis, rank) for axis in given})) if rank else ()


def _no_bodies(module: Any, specs: Sequence[TensorSpec]) -> Graph:
    raise Unsupported("a loop inside this")


@dataclass(slots=True)
class Context:
    """The state that lowering rules share.

    Args:
        large: arrays too large for a constant, by the builder's number of their input.
        key: the input of random numbers, once one was drawn.
        draws: how many draws were made.
        lower_body: lowers the body of a loop, for inputs of given specs.
        most_constant_bytes: larger arrays become inputs.
        halves: whether tensors of 16 bits were seen, which are float32 here.
        calls: of autograd.Functions, by the number that their operator names.
        refused: why gradients of such calls cannot be said, each with its line.
    """

    builder: GraphBuilder
    large: dict[int, Array] = field(default_factory=dict)
    key: Callable[[], int] | None = None
    draws: int = 0
    lower_body: Callable[[Any, Sequence[TensorSpec]], Graph] = _no_bodies
    most_constant_bytes: int = 1 << 16
    halves: bool = False
    calls: Calls = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def spec(self, value: Value) -> TensorSpec:
        return self.builder.spec(value.number)

    def shape(self, value: Value) -> tuple[int, ...]:
        return self.builder.spec(value.number).shape

    def dtype(self, value: Value) -> str:
        return self.builder.spec(value.number).dtype

    def op(self, operator: str, inputs: Sequence[Value], **attributes: AttrValue) -> Value:
        """One application of a catalog operator; its first output."""
        return self.ops(operator, inputs, **attributes)[0]

    def ops(
        self, operator: str, inputs: Sequence[Value], **attributes: AttrValue
    ) -> tuple[Value, ...]:
        numbers = [value.number for value in inputs]
        return tuple(map(Value, self.builder.add_many(operator, numbers, **attributes)))

    def formula(self, operands: Sequence[Value], write: Callable[..., int]) -> Value:
        """One elementwise expression; `write(formula_builder, *operands)` may use them all."""
        distinct = list(dict.fromkeys(operands))

        def merged(build: FormulaBuilder, *inputs: int) -> int:
            return write(build, *(inputs[distinct.index(operand)] for operand in operands))

        numbers = [value.number for value in distinct]
        return Value(building.expression(self.builder, numbers, merged))

    def call(self, function: str, *operands: Value) -> Value:
        """One scalar function.

        Raises:
            Unsupported: the catalog has no such function.
        """
        if function not in SCALARS:
            raise Unsupported(f"the catalog has no scalar function {function}")
        return self.formula(operands, lambda build, *inputs: build.call(function, *inputs))

    # dtypes

    def catalog_dtype(self, dtype: object) -> str:
        """The catalog's name of a torch dtype.

        Raises:
            Unsupported: the catalog lacks it.
        """
        name = dtype_name(dtype)
        if name in HALVES:
            self.halves = True
            return "float32"
        if name not in DTYPES and name in NARROW:
            return "int32"
        if name not in DTYPES:
            raise Unsupported(f"the dtype {name} is not one of {', '.join(DTYPES)}")
        return name

    def promoted(self, *operands: Value | Scalar) -> str:
        """torch's result dtype: dimensions count before scalars, and those before Python numbers.

        Raises:
            Unsupported: the catalog lacks the dtype.
        """
        torch = load_torch()

        def seen(operand: Value | Scalar) -> Any:
            if not isinstance(operand, Value):
                return operand
            spec = self.spec(operand)
            dtype: Any = getattr(torch, spec.dtype)
            return torch.empty((1,) * min(1, spec.rank), dtype=dtype, device="meta")

        state = seen(operands[0])
        for operand in operands[1:]:
            other = seen(operand)
            dtype = torch.result_type(state, other)
            rank = max(getattr(state, "ndim", 0), getattr(other, "ndim", 0))
            state = torch.empty((1,) * rank, dtype=dtype, device="meta")
        dtype = state.dtype if hasattr(state, "dtype") else torch.result_type(state, state)
        return self.catalog_dtype(dtype)

    def floating(self, value: Value) -> bool:
        return DTYPES[self.dtype(value)].kind == "f" or self.dtype(value) == "bfloat16"

    def default_float(self) -> str:
        return self.catalog_dtype(load_torch().get_default_dtype())

    def cast(self, value: Value, dtype: str) -> Value:
        return value if self.dtype(value) == dtype else self.op("cast", [value], dtype=dtype)

    def halved(self, value: Value, dtype: str) -> Value:
        """The nearest numbers that a float of 16 bits has."""
        self.halves = True
        return self.call(f"round_{dtype}", self.cast(value, "float32"))

    def as_float(self, value: Value) -> Value:
        """Integers and bools become the default float dtype."""
        return value if self.floating(value) else self.cast(value, self.default_float())

    def together(self, *operands: Value | Scalar, floats: bool = False) -> tuple[Value, ...]:
        """The operands in their common dtype; Python numbers become scalars of the graph."""
        dtype = self.promoted(*operands)
        if floats and not (DTYPES[dtype].kind == "f" or dtype == "bfloat16"):
            dtype = self.default_float()
        return tuple(self.as_value(operand, dtype) for operand in operands)

    def as_value(self, operand: Value | Scalar, dtype: str) -> Value:
        return (
            self.cast(operand, dtype) if isinstance(operand, Value) else self.number(operand, dtype)
        )

    def stopped(self, value: Value) -> Value:
        """The same numbers, through which no gradient passes, as none passes through bits."""
        if self.dtype(value) == "float64":
            return self.op("custom_gradient", [value], **stopping(self.spec(value)))
        return self._bits(value) if self.dtype(value) == "float32" else value

    def _bits(self, value: Value) -> Value:
        return self.formula((value,), lambda f, x: f.call("bits_float", f.call("float_bits", x)))

    def wrapped(self, value: Value, dtype: str) -> Value:
        """An int32 that stands for a narrow integer, brought into its range as that wraps."""
        low, high = NARROW[dtype]
        numbers = (self.number(-low, "int32"), self.number(high - low, "int32"))

        def write(f: FormulaBuilder, x: int, shift: int, mask: int) -> int:
            return f.call("sub", f.call("and", f.call("add", x, shift), mask), shift)

        return self.formula((value, *numbers), write)

    # constants

    def number(self, value: Scalar, dtype: str) -> Value:
        """A scalar constant.

        Raises:
            Unsupported: it is NaN.
        """
        if isinstance(value, float) and math.isnan(value):
            raise Unsupported("the constant is NaN, and a graph has none")
        if DTYPES[dtype].kind in "iu" and isinstance(value, float):
            value = int(value)
        return Value(building.number(self.builder, value, dtype))

    def constant(self, array: Array) -> Value:
        """An array of numbers that the program holds; a large one becomes an input.

        Raises:
            Unsupported: it holds NaN, or the catalog lacks its dtype.
        """
        if array.dtype.name not in DTYPES and array.dtype.name in NARROW:
            array = array.astype(np.int32)
        name = array.dtype.name
        if name not in DTYPES:
            raise Unsupported(f"the dtype {name} is not one of {', '.join(DTYPES)}")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise Unsupported("a constant array holds NaN, and a graph has none")
        if array.nbytes > self.most_constant_bytes:
            spec = TensorSpec(name, tuple(array.shape))
            value = Value(self.builder.input(spec))
            self.large[value.number] = array
            return value
        return Value(self.builder.constant(array))

    def constant_of(self, tensor: Any) -> Value | Pair:
        """A constant from a torch tensor."""
        array = numpy_of(tensor)
        if array.dtype.kind == "c":
            real = self.constant(np.ascontiguousarray(array.real))
            return Pair(real, self.constant(np.ascontiguousarray(array.imag)))
        return self.constant(array)

    def filled(self, shape: Sequence[int], value: Scalar, dtype: str) -> Value:
        return self.spread(self.number(value, dtype), shape)

    # movement

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        return Value(building.reshaped(self.builder, value.number, tuple(shape)))

    def spread(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast to a shape."""
        return Value(building.spread(self.builder, value.number, tuple(shape)))

    def permute(self, value: Value, axes: Sequence[int]) -> Value:
        if tuple(axes) == tuple(range(len(axes))):
            return value
        return self.op("permute", [value], axes=tuple(axes))

    def box(
        self, value: Value, start: Sequence[int], stop: Sequence[int], step: Sequence[int]
    ) -> Value:
        whole = self.shape(value)
        if not any(start) and tuple(stop) == whole and all(one == 1 for one in step):
            return value
        bounds = {"start": tuple(start), "stop": tuple(stop), "step": tuple(step)}
        return self.op("slice", [value], **bounds)

    def cut(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """A slice of one axis."""
        shape = self.shape(value)
        first, last, stride = [0] * len(shape), list(shape), [1] * len(shape)
        first[axis], last[axis], stride[axis] = start, max(start, stop), step
        return self.box(value, first, last, stride)

    def reduce(
        self, function: str, value: Value, axes: Sequence[int], *, keepdims: bool = False
    ) -> Value:
        if not self.shape(value):
            return value
        numbers = building.reduced(self.builder, function, value.number, axes, keepdims=keepdims)
        return Value(numbers)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Any number of values; the operator takes 64 at once."""
        parts = list(values)
        while len(parts) > 1:
            parts = [
                self.op("concat", parts[first : first + 64], axis=axis)
                if parts[first + 1 : first + 64]
                else parts[first]
                for first in range(0, len(parts), 64)
            ]
        return parts[0]

    def iota(self, count: int, dtype: str = "int64") -> Value:
        if dtype in ("int32", "int64"):
            return self.op("iota", [], count=count, dtype=dtype)
        return self.cast(self.op("iota", [], count=count, dtype="int64"), dtype)

    def broadcast_shapes(self, *shapes: Sequence[int]) -> tuple[int, ...]:
        try:
            return tuple(np.broadcast_shapes(*map(tuple, shapes)))
        except ValueError as cause:
            raise GraphError(
                "shapes_mismatch", operator="broadcast", shapes=shapes, reason=str(cause)
            ) from cause
