"""The language in which kernels are written: typed values, loops, conditions, memory.

Owns: the translation of Python expressions into one SPIR-V module. Must not: know an operator.

Every shape is a constant of the kernel. Tensors are addressed by number; a bool is one byte there.
Float arithmetic is not contracted unless the kernel says so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.engine.backends.card.narrow import NARROW, RAW, decoded, encoded
from app.engine.backends.card.spirv import (
    STORAGE_PHYSICAL,
    STORAGE_PUSH,
    STORAGE_SHARED,
    WIDTHS,
    Module,
)
from app.engine.backends.card.target import target
from app.engine.backends.card.values import Number, Value

__all__ = ["MAX_PUSHED", "Kernel", "Shared", "Value", "Variable"]

MAX_PUSHED: Final = 16
"""More addresses than that are read from a table, whose address is pushed."""

_EXTENDED: Final = {
    **{"RoundEven": 2, "Trunc": 3, "FAbs": 4, "Floor": 8, "Ceil": 9, "Sqrt": 31},
    **{"InverseSqrt": 32, "Fma": 50},
}
_ARITHMETIC: Final = {
    **{("add", "f"): "FAdd", ("sub", "f"): "FSub", ("mul", "f"): "FMul", ("div", "f"): "FDiv"},
    **{("add", "i"): "IAdd", ("sub", "i"): "ISub", ("mul", "i"): "IMul", ("div", "i"): "SDiv"},
    **{("add", "u"): "IAdd", ("sub", "u"): "ISub", ("mul", "u"): "IMul", ("div", "u"): "UDiv"},
    **{("mod", "u"): "UMod", ("mod", "i"): "SRem"},
    **{("and", "i"): "BitwiseAnd", ("or", "i"): "BitwiseOr", ("xor", "i"): "BitwiseXor"},
    **{("and", "u"): "BitwiseAnd", ("or", "u"): "BitwiseOr", ("xor", "u"): "BitwiseXor"},
    **{("and", "b"): "LogicalAnd", ("or", "b"): "LogicalOr", ("xor", "b"): "LogicalNotEqual"},
    **{("shl", "i"): "ShiftLeftLogical", ("shr", "i"): "ShiftRightArithmetic"},
    **{("shl", "u"): "ShiftLeftLogical", ("shr", "u"): "ShiftRightLogical"},
}
_TESTS: Final = {
    **{("eq", "f"): "FOrdEqual", ("ne", "f"): "FUnordNotEqual", ("lt", "f"): "FOrdLessThan"},
    **{("le", "f"): "FOrdLessThanEqual", ("gt", "f"): "FOrdGreaterThan"},
    **{("ge", "f"): "FOrdGreaterThanEqual", ("eq", "i"): "IEqual", ("ne", "i"): "INotEqual"},
    **{("lt", "i"): "SLessThan", ("le", "i"): "SLessThanEqual", ("gt", "i"): "SGreaterThan"},
    **{("ge", "i"): "SGreaterThanEqual", ("eq", "u"): "IEqual", ("ne", "u"): "INotEqual"},
    **{("lt", "u"): "ULessThan", ("le", "u"): "ULessThanEqual", ("gt", "u"): "UGreaterThan"},
    **{("ge", "u"): "UGreaterThanEqual", ("eq", "b"): "LogicalEqual"},
    **{("ne", "b"): "LogicalNotEqual"},
}
_NO_CONTRACTION: Final = 42


class Variable:
    """A variable of a thread."""

    def __init__(self, kernel: Kernel, kind: str) -> None:
        self._kernel, self._kind = kernel, kind
        self._id = kernel.module.variable(kind)

    def get(self) -> Value:
        return self._kernel.loaded(self._kind, self._id)

    def set(self, value: Value | Number) -> None:
        value = self._kernel.lift(value, self._kind)
        self._kernel.module.put("Store", self._id, value.id)


class Shared:
    """An array that a group shares; a bool is held as uint32."""

    def __init__(self, kernel: Kernel, kind: str, count: int) -> None:
        self._kernel, self._kind = kernel, kind
        self._stored = "uint32" if kind == "bool" else kind
        self._id = kernel.module.shared(self._stored, count)

    def _place(self, index: Value | int) -> int:
        module = self._kernel.module
        pointer = module.pointer(STORAGE_SHARED, module.type(self._stored))
        place = self._kernel.lift(index, "uint32")
        return module.result("AccessChain", pointer, self._id, place.id)

    def get(self, index: Value | int) -> Value:
        value = self._kernel.loaded(self._stored, self._place(index))
        return value.differs(0) if self._kind == "bool" else value

    def set(self, index: Value | int, value: Value) -> None:
        if self._kind == "bool":
            value = self._kernel.select(value, 1, 0, "uint32")
        self._kernel.module.put("Store", self._place(index), value.id)

    def set_part(self, index: Value, part: Value, value: Value) -> None:
        """One of the four elements of a vector."""
        module = self._kernel.module
        pointer = module.pointer(STORAGE_SHARED, module.type(value.kind))
        found = module.result("AccessChain", pointer, self._id, index.id, part.id)
        module.put("Store", found, value.id)


class Kernel:
    """One kernel in the making.

    Args:
        addresses: of how many tensors it is given the address.
        threads: of a group, in x.
        contract: a product and a sum may become one rounding.
        loose: what a driver does with zeros' signs and NaN by itself is good enough, or seen to.
    """

    def __init__(
        self,
        addresses: int,
        threads: int = 256,
        *,
        contract: bool = False,
        loose: bool = False,
    ) -> None:
        self.module = Module()
        self.threads = threads
        self.addresses = addresses
        self._contract = contract
        self.loose = loose
        given = target()
        self._by_bits = given.ordered and not given.divides
        self._pushed = self.module.pushed(MAX_PUSHED)
        self._local = self.module.builtin(27, "uint32x3")
        self._group = self.module.builtin(26, "uint32x3")
        self._bases = [self._address(place) for place in range(addresses)]

    # -- values --------------------------------------------------------------------------------

    def number(self, kind: str, value: Number) -> Value:
        """A constant."""
        if kind == "float32":
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            return Value(self, kind, self.module.constant(kind, bits))
        if kind == "bool":
            return Value(self, kind, self.module.constant(kind, int(value)))
        whole = int(value)
        bits = whole % (1 << 8 * WIDTHS[kind])
        return Value(self, kind, self.module.constant(kind, bits), whole)

    def pattern(self, kind: str, bits: int) -> Value:
        """A constant by its bits."""
        return Value(self, kind, self.module.constant(kind, bits))

    def lift(self, value: Value | Number, kind: str) -> Value:
        return value if isinstance(value, Value) else self.number(kind, value)

    def make(self, name: str, kind: str, *operands: Value) -> Value:
        """The result of an instruction."""
        ids = [operand.id for operand in operands]
        return Value(self, kind, self.module.result(name, self.module.type(kind), *ids))

    def extended(self, name: str, kind: str, *operands: Value) -> Value:
        """An instruction of GLSL.std.450."""
        ids = [operand.id for operand in operands]
        module = self.module
        number = _EXTENDED[name]
        return Value(
            self,
            kind,
            module.result("ExtInst", module.type(kind), module.extended, number, *ids),
        )

    def arithmetic(self, name: str, left: Value, other: Value | Number) -> Value:
        if left.kind[0] == "u" and isinstance(other, int):
            if (name in ("mul", "div") and other == 1) or (name in ("add", "shl") and other == 0):
                return left
            if (name == "mul" and other == 0) or (name == "mod" and other == 1):
                return self.number(left.kind, 0)
        right = self.lift(other, left.kind)
        if name in ("shl", "shr"):  # lavapipe (Mesa 22.3) gets some shifts by 64-bit counts wrong
            right = right.as_("uint32")
        found = self.make(_ARITHMETIC[name, left.kind[0]], left.kind, left, right)
        if left.kind[0] == "f" and not self._contract:
            self.module.decorate(found.id, _NO_CONTRACTION)
        return found

    def test(self, name: str, left: Value, other: Value | Number) -> Value:
        right = self.lift(other, left.kind)
        if left.kind == "float32" and self._by_bits:
            return self._test_bits(name, left.bits("int32"), right.bits("int32"))
        return self.make(_TESTS[name, left.kind[0]], "bool", left, right)

    def _test_bits(self, name: str, left: Value, right: Value) -> Value:
        """A comparison of two float32 by their bits, which have the order of the numbers: some
        cards take numbers below 2^-126 for zero where they compare."""
        sizes = [value & 0x7FFFFFFF for value in (left, right)]
        zero = self.number("int32", 0)
        keys = [
            self.select(value < 0, zero - size, value)
            for value, size in zip((left, right), sizes, strict=True)
        ]
        numbers = (sizes[0] <= 0x7F800000) & (sizes[1] <= 0x7F800000)
        found = self.test(name, keys[0], keys[1])
        return found | ~numbers if name == "ne" else found & numbers

    def select(
        self, condition: Value, first: Value | Number, second: Value | Number, kind: str = ""
    ) -> Value:
        """One of two, both of which are computed."""
        if isinstance(first, Value):
            kind = first.kind
        elif isinstance(second, Value):
            kind = second.kind
        return self.make("Select", kind, condition, self.lift(first, kind), self.lift(second, kind))

    def loaded(self, kind: str, pointer: int) -> Value:
        return Value(self, kind, self.module.result("Load", self.module.type(kind), pointer))

    def variable(self, kind: str, start: Value | Number | None = None) -> Variable:
        found = Variable(self, kind)
        if start is not None:
            found.set(start)
        return found

    def shared(self, kind: str, count: int) -> Shared:
        return Shared(self, kind, count)

    # -- places --------------------------------------------------------------------------------

    def _builtin(self, variable: int, axis: int) -> Value:
        module = self.module
        whole = module.result("Load", module.type("uint32x3"), variable)
        found = module.result("CompositeExtract", module.type("uint32"), whole, axis)
        return Value(self, "uint32", found)

    def local(self) -> Value:
        """The number of the thread in its group."""
        return self._builtin(self._local, 0)

    def group(self, axis: int = 0) -> Value:
        return self._builtin(self._group, axis)

    def flat_group(self) -> Value:
        """The number of the group where groups are spread over x and y (`grid`)."""
        return self.group(0) + (self.group(1) << 15)

    # -- memory --------------------------------------------------------------------------------

    def _address(self, place: int) -> Value:
        module = self.module
        pointer = module.pointer(STORAGE_PUSH, module.type("uint64"))
        direct = self.addresses <= MAX_PUSHED
        zero = module.constant("uint32", 0)
        member = module.constant("uint32", place if direct else 0)
        chain = module.result("AccessChain", pointer, self._pushed, zero, member)
        pushed = self.loaded("uint64", chain)
        return pushed if direct else self.load_at("uint64", pushed + 8 * place)

    def place(self, tensor: int, index: Value | int, width: int) -> Value:
        """The address of an element."""
        index = self.lift(index, "uint32")
        offset = self.make("UConvert", "uint64", index)
        return self._bases[tensor] + offset * width

    def load(self, kind: str, tensor: int, index: Value | int) -> Value:
        """Element `index` of a tensor; uint32."""
        if kind == "bool":
            return self.load("uint8", tensor, index).differs(0)
        return self.load_at(kind, self.place(tensor, index, WIDTHS[kind]))

    def element(self, dtype: str, tensor: int, index: Value | int) -> Value:
        """Element `index` of a tensor of a dtype, in the kind that holds it."""
        if dtype in NARROW:
            return decoded(self.load(RAW[dtype], tensor, index), dtype)
        return self.load(dtype, tensor, index)

    def load_at(self, kind: str, address: Value) -> Value:
        module = self.module
        type_id = module.type(kind)
        pointer = module.pointer(STORAGE_PHYSICAL, type_id)
        found = module.result("ConvertUToPtr", pointer, address.id)
        return Value(self, kind, module.result("Load", type_id, found, 2, WIDTHS[kind]))

    def store(self, tensor: int, index: Value | int, value: Value, dtype: str = "") -> None:
        """Element `index` of a tensor, of a dtype that the value's kind holds."""
        if dtype in NARROW:
            value = encoded(value, dtype)
        if value.kind == "bool":
            value = self.select(value, 1, 0, "uint8")
        self.store_at(self.place(tensor, index, WIDTHS[value.kind]), value)

    def store_at(self, address: Value, value: Value) -> None:
        module = self.module
        pointer = module.pointer(STORAGE_PHYSICAL, module.type(value.kind))
        found = module.result("ConvertUToPtr", pointer, address.id)
        module.put("Store", found, value.id, 2, WIDTHS[value.kind])

    def split(self, vector: Value) -> list[Value]:
        """The elements of a vector of four."""
        kind = vector.kind.removesuffix("x4")
        type_id = self.module.type(kind)
        return [
            Value(self, kind, self.module.result("CompositeExtract", type_id, vector.id, place))
            for place in range(4)
        ]

    def join(self, values: list[Value]) -> Value:
        return self.make("CompositeConstruct", f"{values[0].kind}x4", *values)

    # -- control -------------------------------------------------------------------------------

    def _label(self, label: int) -> None:
        self.module.put("Label", label)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        module = self.module
        inside, after = module.new(), module.new()
        module.put("SelectionMerge", after, 0)
        module.put("BranchConditional", condition.id, inside, after)
        self._label(inside)
        yield
        module.put("Branch", after)
        self._label(after)

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: int = 1) -> Iterator[Value]:
        """Counts in uint32 from `start` while below `stop`."""
        module = self.module
        place = self.variable("uint32", self.lift(start, "uint32"))
        head, test, body, more, after = (module.new() for _ in range(5))
        module.put("Branch", head)
        self._label(head)
        module.put("LoopMerge", after, more, 0)
        module.put("Branch", test)
        self._label(test)
        now = place.get()
        module.put("BranchConditional", (now < stop).id, body, after)
        self._label(body)
        yield now
        module.put("Branch", more)
        self._label(more)
        place.set(place.get() + step)
        module.put("Branch", head)
        self._label(after)

    def barrier(self) -> None:
        """All threads of the group meet here and see what the others shared."""
        scope = self.module.constant("uint32", 2)
        meaning = self.module.constant("uint32", 0x108)
        self.module.put("ControlBarrier", scope, scope, meaning)

    def words(self) -> bytes:
        return self.module.words((self.threads, 1, 1), loose=self.loose)
