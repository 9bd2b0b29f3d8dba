"""CUDA C from the same words that Vulkan gets: one kernel, two printers.

Owns: the translation of a module of `app.engine.backends.card.kernel` into one function `main_`.
Must not: know an operator, or print anything but numbers and words of its own.

The words are structured: a selection or a loop is announced before its branch, so each becomes a
block of C, and a value is named by its number. Constants are bit patterns. What is not to be
contracted becomes an intrinsic that never is; signed sums wrap, as they do in SPIR-V.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.engine.backends.card.spirv import OPCODES

__all__ = ["ENTRY", "Source", "translated"]

ENTRY: Final = "main_"

_NAMES: Final = {number: name for name, number in OPCODES.items()}
_GLOBALS: Final = frozenset(
    {11, 14, 15, 16, 17, 19, 20, 21, 22, 23, 28, 30, 32, 33, 41, 42, 43, 54, 56, 59, 71, 72}
)
_HEADER_WORDS: Final = 5

_INFIX: Final = {
    **{"UDiv": "/", "SDiv": "/", "UMod": "%", "SRem": "%", "IEqual": "==", "INotEqual": "!="},
    **{"UGreaterThan": ">", "SGreaterThan": ">", "UGreaterThanEqual": ">=", "ULessThan": "<"},
    **{"SGreaterThanEqual": ">=", "SLessThan": "<", "ULessThanEqual": "<=", "FOrdEqual": "=="},
    **{"SLessThanEqual": "<=", "FUnordNotEqual": "!=", "FOrdLessThan": "<", "LogicalOr": "||"},
    **{"FOrdGreaterThan": ">", "FOrdLessThanEqual": "<=", "FOrdGreaterThanEqual": ">="},
    **{"LogicalAnd": "&&", "LogicalEqual": "==", "LogicalNotEqual": "!=", "BitwiseOr": "|"},
    **{"BitwiseXor": "^", "BitwiseAnd": "&", "ShiftRightLogical": ">>"},
    **{"ShiftRightArithmetic": ">>"},
}
_WRAPPING: Final = {"IAdd": "+", "ISub": "-", "IMul": "*", "ShiftLeftLogical": "<<"}
_FLOATS: Final = {
    **{"FAdd": ("__fadd_rn", "+"), "FSub": ("__fsub_rn", "-"), "FMul": ("__fmul_rn", "*")},
    **{"FDiv": ("__fdiv_rn", "/")},
}
_EXTENDED: Final = {
    **{2: "rintf", 3: "truncf", 4: "fabsf", 8: "floorf", 9: "ceilf", 31: "__fsqrt_rn"},
    **{32: "__frsqrt_rn", 50: "__fmaf_rn"},
}
_FROM_FLOAT: Final = {"int": "__float2int_rz", "long long": "__float2ll_rz"}
_TO_FLOAT: Final = {
    **{"int": "__int2float_rn", "long long": "__ll2float_rn"},
    **{"unsigned": "__uint2float_rn", "unsigned long long": "__ull2float_rn"},
}
_SAME_BITS: Final = {
    ("float", "int"): "__float_as_int",
    ("float", "unsigned"): "__float_as_uint",
    ("int", "float"): "__int_as_float",
    ("unsigned", "float"): "__uint_as_float",
}
_UNSIGNED: Final = {
    **{"int": "unsigned", "long long": "unsigned long long"},
    **{"signed char": "unsigned char", "short": "unsigned short"},
}
_BYTES: Final = "unsigned char*"
_PARTS: Final = ("x", "y", "z", "w")


@dataclass(frozen=True, slots=True)
class Source:
    """One translated kernel.

    Args:
        text: of CUDA C.
        threads: of a group.
        parameters: how many addresses it takes, each an unsigned 64-bit number.
        contracts: products and sums may become one rounding.
    """

    text: str
    threads: int
    parameters: int
    contracts: bool


def translated(words: bytes) -> Source:
    """The kernel of a module made by `app.engine.backends.card.kernel`.

    Raises:
        ValueError: for words that this language does not write.
    """
    return _Printer(struct.unpack(f"<{len(words) // 4}I", words)).source()


def _instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    place = _HEADER_WORDS
    while place < len(words):
        count, opcode = words[place] >> 16, words[place] & 0xFFFF
        if count == 0:
            raise ValueError(f"an instruction of no length at word {place}")
        yield opcode, words[place + 1 : place + count]
        place += count


@dataclass(slots=True)
class _Printer:
    words: Sequence[int]
    types: dict[int, str] = field(default_factory=dict)
    """C types by number; pointers hold `*` and what they point to, in front."""
    kinds: dict[int, str] = field(default_factory=dict)
    """C types of values."""
    names: dict[int, str] = field(default_factory=dict)
    """Constants, places and built-in values, as they are written."""
    lengths: dict[int, int] = field(default_factory=dict)
    literals: dict[int, int] = field(default_factory=dict)
    builtins: dict[int, int] = field(default_factory=dict)
    exact: set[int] = field(default_factory=set)
    shared: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)
    """What a branch to a label is written as."""
    loops: dict[int, tuple[int, int]] = field(default_factory=dict)
    pushed: int = 0
    parameters: int = 0
    threads: int = 0
    pointers: set[int] = field(default_factory=set)
    """Addresses made of a parameter: by that the compiler knows whose memory it is."""

    def source(self) -> Source:
        for opcode, operands in _instructions(self.words):
            if opcode in _GLOBALS:
                self._global(opcode, operands)
            else:
                self._instruction(_NAMES[opcode], operands)
        given = ", ".join(f"{_BYTES} p{n}" for n in range(self.parameters))
        text = "\n".join(
            [
                f'extern "C" __global__ void __launch_bounds__({self.threads}) {ENTRY}({given}) {{',
                *self.shared,
                *self.variables,
                *self.lines,
                "}",
            ]
        )
        return Source(text + "\n", self.threads, self.parameters, not self.exact)

    # -- types, constants, variables -----------------------------------------------------------

    def _global(self, opcode: int, operands: Sequence[int]) -> None:
        match opcode:
            case 16 if operands[1] == 17:  # the size of a group
                self.threads = operands[2]
            case 71 if operands[1] == 11:
                self.builtins[operands[0]] = operands[2]
            case 71 if operands[1] == 42:
                self.exact.add(operands[0])
            case 20:
                self.types[operands[0]] = "bool"
            case 21:
                self.types[operands[0]] = _integer(operands[1], bool(operands[2]))
            case 22:
                self.types[operands[0]] = "float"
            case 23:
                self.types[operands[0]] = f"{self.types[operands[1]]}{operands[2]}"
            case 28:
                self.types[operands[0]] = self.types[operands[1]]
                self.lengths[operands[0]] = self.literals[operands[2]]
            case 32:
                self.types[operands[0]] = self.types.get(operands[2], "")
                self.lengths[operands[0]] = self.lengths.get(operands[2], 0)
            case 41 | 42:
                self._name(operands[1], operands[0], "true" if opcode == 41 else "false")
            case 43:
                self._constant(*operands)
            case 59:
                self._variable(*operands)

    def _name(self, value: int, type_id: int, text: str) -> None:
        self.names[value] = text
        self.kinds[value] = self.types[type_id]

    def _constant(self, type_id: int, value: int, low: int, high: int = 0) -> None:
        kind = self.types[type_id]
        bits = high << 32 | low
        self.literals[value] = bits
        if kind == "float":
            text = f"__uint_as_float(0x{low:x}u)"
        elif kind == "unsigned":
            text = f"0x{low:x}u"
        else:
            text = f"(({kind})0x{bits:x}ull)"
        self._name(value, type_id, text)

    def _variable(self, pointer: int, value: int, storage: int) -> None:
        kind = self.types[pointer]
        if storage == 7:
            self.variables.append(f"{kind} x{value};")
            self.names[value] = f"x{value}"
        elif storage == 4:
            self.shared.append(f"__shared__ {kind} s{value}[{self.lengths[pointer]}];")
            self.names[value] = f"s{value}"
        elif storage == 9:
            self.pushed = value
        self.kinds[value] = kind

    # -- the body ------------------------------------------------------------------------------

    def _value(self, number: int) -> str:
        return self.names.get(number, f"v{number}")

    def _instruction(self, name: str, operands: Sequence[int]) -> None:
        control: Callable[[Sequence[int]], None] | None = {
            "Store": self._store,
            "Label": self._label,
            "Branch": self._branch,
            "BranchConditional": self._decision,
            "SelectionMerge": self._selection,
            "LoopMerge": self._loop,
            "ControlBarrier": self._barrier,
            "Return": lambda operands: None,
        }.get(name)
        if control is not None:
            control(operands)
            return
        type_id, result, *rest = operands
        kind = self.types[type_id]
        self.kinds[result] = kind
        if self.pointers.intersection(rest) and name in ("Load", "IAdd"):
            sum_ = " + ".join(self._value(operand) for operand in rest)
            self.lines.append(f"{_BYTES} const v{result} = {sum_};")
            self.pointers.add(result)
        elif name == "AccessChain":
            self._chain(result, rest)
        elif name == "ConvertUToPtr":
            self.names[result] = f"(*({kind}*){self._value(rest[0])})"
        elif name == "Load" and rest[0] in self.builtins:
            self.names[result] = "threadIdx" if self.builtins[rest[0]] == 27 else "blockIdx"
        elif name == "CompositeExtract":
            self.names[result] = f"{self._value(rest[0])}.{_PARTS[rest[1]]}"
        else:
            self.lines.append(f"const {kind} v{result} = {self._expression(name, result, rest)};")

    def _chain(self, result: int, operands: Sequence[int]) -> None:
        base, *places = operands
        if base == self.pushed:
            number = self.literals[places[1]]
            self.parameters = max(self.parameters, number + 1)
            self.names[result] = f"p{number}"
            self.pointers.add(result)
        elif len(places) == 1:
            self.names[result] = f"{self.names[base]}[{self._value(places[0])}]"
        else:
            parts = f"(({self.kinds[result]}*){self.names[base]})"
            at = f"{self._value(places[0])} * 4u + {self._value(places[1])}"
            self.names[result] = f"{parts}[{at}]"

    def _expression(self, name: str, result: int, operands: Sequence[int]) -> str:
        kind = self.kinds[result]
        given = [self._value(operand) for operand in operands]
        own = self.kinds.get(operands[0], "")
        if name in _FLOATS:
            intrinsic, sign = _FLOATS[name]
            if result in self.exact:
                return f"{intrinsic}({given[0]}, {given[1]})"
            return f"{given[0]} {sign} {given[1]}"
        if name in _INFIX:
            return f"{given[0]} {_INFIX[name]} {given[1]}"
        if name in _WRAPPING:
            wide = _UNSIGNED.get(kind, kind)
            return f"({kind})(({wide}){given[0]} {_WRAPPING[name]} ({wide}){given[1]})"
        match name:
            case "Load":
                return given[0]
            case "ExtInst":
                return f"{_EXTENDED[operands[1]]}({', '.join(given[2:])})"
            case "Select":
                return f"{given[0]} ? {given[1]} : {given[2]}"
            case "SNegate":
                wide = _UNSIGNED[kind]
                return f"({kind})(({wide})0 - ({wide}){given[0]})"
            case "FNegate":
                return f"-{given[0]}"
            case "LogicalNot":
                return f"!{given[0]}"
            case "Not":
                return f"({kind})~{given[0]}"
            case "UConvert" | "SConvert":
                return f"({kind}){given[0]}"
            case "Bitcast":
                function = _SAME_BITS.get((own, kind))
                return f"{function}({given[0]})" if function else f"({kind}){given[0]}"
            case "ConvertFToS":
                return f"{_FROM_FLOAT[kind]}({given[0]})"
            case "ConvertSToF" | "ConvertUToF":
                return f"{_TO_FLOAT[own]}({given[0]})"
            case "CompositeConstruct":
                return f"make_{kind}({', '.join(given)})"
        raise ValueError(f"{name} is not written here")

    # -- memory and control --------------------------------------------------------------------

    def _store(self, operands: Sequence[int]) -> None:
        self.lines.append(f"{self._value(operands[0])} = {self._value(operands[1])};")

    def _barrier(self, operands: Sequence[int]) -> None:
        self.lines.append("__syncthreads();")

    def _selection(self, operands: Sequence[int]) -> None:
        self.ends[operands[0]] = "}"

    def _loop(self, operands: Sequence[int]) -> None:
        after, more, _ = operands
        self.loops[after] = (after, more)
        self.lines.append("for (;;) {")

    def _decision(self, operands: Sequence[int]) -> None:
        condition, _, after = operands
        if after in self.loops:
            self.lines.append(f"if (!{self._value(condition)}) break;")
            self.ends[after] = "}"
        else:
            self.lines.append(f"if ({self._value(condition)}) {{")

    def _branch(self, operands: Sequence[int]) -> None:
        """Where a branch leads follows from the labels around it."""

    def _label(self, operands: Sequence[int]) -> None:
        end = self.ends.pop(operands[0], "")
        if end:
            self.lines.append(end)


def _integer(width: int, signed: bool) -> str:
    name = {8: "char", 16: "short", 32: "int", 64: "long long"}[width]
    if signed:
        return "signed char" if width == 8 else name
    return "unsigned" if width == 32 else f"unsigned {name}"
