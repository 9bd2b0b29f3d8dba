"""SPIR-V modules as words: numbers of instructions, types, constants, sections.

Owns: the layout of one compute module (SPIR-V 1.5, Vulkan 1.2; numbers from the SPIR-V
specification). Must not: know what is computed; `kernel.py` is the language above it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["CONTROLS", "OPCODES", "WIDTHS", "Module", "controlled", "loose"]

OPCODES: Final = {
    **{"ExtInst": 12, "Load": 61, "Store": 62, "AccessChain": 65, "CompositeExtract": 81},
    **{"CompositeConstruct": 80, "ConvertFToS": 110, "ConvertSToF": 111, "ConvertUToF": 112},
    **{"UConvert": 113, "SConvert": 114, "ConvertUToPtr": 120, "Bitcast": 124, "SNegate": 126},
    **{"FNegate": 127, "IAdd": 128, "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132},
    **{"FMul": 133, "UDiv": 134, "SDiv": 135, "FDiv": 136, "UMod": 137, "SRem": 138},
    **{"LogicalEqual": 164, "LogicalNotEqual": 165, "LogicalOr": 166, "LogicalAnd": 167},
    **{"LogicalNot": 168, "Select": 169, "IEqual": 170, "INotEqual": 171, "UGreaterThan": 172},
    **{"SGreaterThan": 173, "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176},
    **{"SLessThan": 177, "ULessThanEqual": 178, "SLessThanEqual": 179, "FOrdEqual": 180},
    **{"FUnordNotEqual": 183, "FOrdLessThan": 184, "FOrdGreaterThan": 186},
    **{"FOrdLessThanEqual": 188, "FOrdGreaterThanEqual": 190, "ShiftRightLogical": 194},
    **{"ShiftRightArithmetic": 195, "ShiftLeftLogical": 196, "BitwiseOr": 197},
    **{"BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200, "ControlBarrier": 224},
    **{"AtomicCompareExchange": 230, "LoopMerge": 246, "SelectionMerge": 247, "Label": 248},
    **{"Branch": 249, "BranchConditional": 250, "Return": 253},
    **{"CooperativeMatrixLoadKHR": 4457, "CooperativeMatrixStoreKHR": 4458},
    "CooperativeMatrixMulAddKHR": 4459,
}

WIDTHS: Final = {
    **{"float32": 4, "int32": 4, "int64": 8, "uint32": 4, "uint64": 8, "uint8": 1, "uint16": 2},
    **{"float32x4": 16, "int32x4": 16, "uint32x4": 16},
}
"""Kinds that lie in memory, with their bytes."""

_HEADER_WORDS: Final = 5
_LOOSE: Final = 1
"""In the place of a tool's number, which drivers do not read."""
_MAGIC: Final = 0x07230203
_VERSION: Final = 0x00010500
_CAPABILITIES: Final = (1, 11, 39, 4448, 5347)
"""Shader, Int64, Int8, StorageBuffer8BitAccess, PhysicalStorageBufferAddresses."""
CONTROLS: Final = {"denormals": (4464, 4459), "signs": (4466, 4461), "nearest": (4467, 4462)}
"""What may be asked of a driver for float32: small numbers are kept; NaN, infinity and the sign of
zero are kept; results are rounded to the nearest. Each a capability and an execution mode."""
_HALVES: Final = (22, 4433)
"""Int16 and StorageBuffer16BitAccess, of modules that meet 16 bits."""
_FLOAT16: Final = 9
_BFLOAT16: Final = 5116
_BFLOAT16_MATRICES: Final = 5118
_MATRICES: Final = 6022
_VULKAN_MEMORY: Final = 5345
_ENTRY: Final = 2
"""The entry point's number, the second that a module gives."""
FUNCTION: Final = 7
STORAGE_PHYSICAL: Final = 5349
STORAGE_PUSH: Final = 9
STORAGE_SHARED: Final = 4
STORAGE_INPUT: Final = 1


def _string(text: str) -> list[int]:
    raw = text.encode() + b"\0"
    raw += b"\0" * (-len(raw) % 4)
    return list(struct.unpack(f"<{len(raw) // 4}I", raw))


class Module:
    """The words of one module in the making. Ids are given in order, types and constants once."""

    def __init__(self) -> None:
        self._next = 1
        self._types: dict[tuple[object, ...], int] = {}
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._interface: list[int] = []
        self._variables: list[int] = []
        self._needs: dict[int, str] = {}
        self.vulkan_memory = False
        """Whether the module is written in the memory model that matrices of a group need."""
        self.body: list[int] = []
        self.extended = self.new()
        self.entry = self.new()
        self.first_label = self.new()

    def new(self) -> int:
        found = self._next
        self._next += 1
        return found

    @staticmethod
    def _put(target: list[int], opcode: int, *operands: int) -> None:
        target.append((len(operands) + 1) << 16 | opcode)
        target.extend(operands)

    def put(self, name: str, *operands: int) -> None:
        """An instruction of the body without a result."""
        self._put(self.body, OPCODES[name], *operands)

    def result(self, name: str, type_id: int, *operands: int) -> int:
        """An instruction of the body with a result; its id."""
        found = self.new()
        self._put(self.body, OPCODES[name], type_id, found, *operands)
        return found

    def need(self, capability: int, extension: str = "") -> None:
        """Declares a capability beyond those of every module, and the extension it belongs to."""
        self._needs[capability] = extension

    def decorate(self, target: int, *decoration: int) -> None:
        self._put(self._decorations, 71, target, *decoration)

    def _global(self, key: tuple[object, ...], opcode: int, *operands: int) -> int:
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = self.new()
            self._put(self._globals, opcode, found, *operands)
        return found

    # -- types and constants -------------------------------------------------------------------

    def type(self, kind: str) -> int:
        """The id of a kind: `void`, `bool`, a kind of `WIDTHS`."""
        key = ("type", kind)
        match kind:
            case "void":
                return self._global(key, 19)
            case "bool":
                return self._global(key, 20)
            case "float32":
                return self._global(key, 22, 32)
            case "float16":
                self.need(_FLOAT16)
                return self._global(key, 22, 16)
            case "bfloat16":
                self.need(_BFLOAT16, "SPV_KHR_bfloat16")
                return self._global(key, 22, 16, 0)
            case "float32x4":
                return self._global(key, 23, self.type("float32"), 4)
            case "int32x4" | "uint32x4":
                return self._global(key, 23, self.type(kind.removesuffix("x4")), 4)
            case "uint32x3":
                return self._global(key, 23, self.type("uint32"), 3)
        signed = int(not kind.startswith("u"))
        return self._global(key, 21, int(kind.lstrip("uint")), signed)

    def matrix(self, kind: str, scope: int, rows: int, columns: int, use: int) -> int:
        """The id of a matrix of `kind` that the threads of a scope hold together.

        Args:
            scope: 2 for a group, 3 for a subgroup.
            use: 0 and 1 for the operands of a product, 2 for its sums.
        """
        self.vulkan_memory = True
        self.need(_MATRICES, "SPV_KHR_cooperative_matrix")
        if kind == "bfloat16":
            self.need(_BFLOAT16_MATRICES, "SPV_KHR_bfloat16")
        numbers = [self.constant("uint32", number) for number in (scope, rows, columns, use)]
        key = ("matrix", kind, scope, rows, columns, use)
        return self._global(key, 4456, self.type(kind), *numbers)

    def filled(self, matrix: int, bits: int, kind: str) -> int:
        """A constant matrix whose elements are all the same."""
        return self._typed_constant(("filled", matrix, bits), 44, matrix, self.constant(kind, bits))

    def run(self, kind: str, width: int) -> int:
        """The id of a pointer into memory to any number of elements of `kind`, in a block."""
        key = ("run", kind)
        array = self._types.get(key)
        if array is None:
            array = self._types[key] = self.new()
            self._put(self._globals, 29, array, self.type(kind))
            self.decorate(array, 6, width)
            block = self._types["block", kind] = self.new()
            self._put(self._globals, 30, block, array)
            self.decorate(block, 2)
            self._put(self._decorations, 72, block, 0, 35, 0)
        return self.pointer(STORAGE_PHYSICAL, self._types["block", kind])

    def pointer(self, storage: int, type_id: int) -> int:
        return self._global(("pointer", storage, type_id), 32, storage, type_id)

    def constant(self, kind: str, bits: int) -> int:
        """A constant by its bit pattern."""
        key = ("constant", kind, bits)
        if kind == "bool":
            return self._typed_constant(key, 41 if bits else 42, self.type(kind))
        words = [bits & 0xFFFFFFFF]
        if WIDTHS[kind] == 8:
            words.append(bits >> 32 & 0xFFFFFFFF)
        return self._typed_constant(key, 43, self.type(kind), *words)

    def _typed_constant(
        self, key: tuple[object, ...], opcode: int, type_id: int, *words: int
    ) -> int:
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = self.new()
            self._put(self._globals, opcode, type_id, found, *words)
        return found

    # -- variables -----------------------------------------------------------------------------

    def variable(self, kind: str) -> int:
        """A variable of the function."""
        return self.variable_of(self.type(kind))

    def variable_of(self, type_id: int) -> int:
        """The same by the id of its type."""
        pointer = self.pointer(FUNCTION, type_id)
        found = self.new()
        self._put(self._variables, 59, pointer, found, FUNCTION)
        return found

    def shared(self, kind: str, count: int) -> int:
        """An array that the threads of a group share."""
        length = self.constant("uint32", count)
        array = self._global(("array", kind, count), 28, self.type(kind), length)
        return self._outer(STORAGE_SHARED, array)

    def builtin(self, number: int, kind: str) -> int:
        found = self._outer(STORAGE_INPUT, self.type(kind))
        self.decorate(found, 11, number)
        return found

    def pushed(self, count: int) -> int:
        """The push constants: `count` addresses of eight bytes."""
        length = self.constant("uint32", count)
        array = self.new()
        self._put(self._globals, 28, array, self.type("uint64"), length)
        self.decorate(array, 6, 8)
        block = self.new()
        self._put(self._globals, 30, block, array)
        self.decorate(block, 2)
        self._put(self._decorations, 72, block, 0, 35, 0)
        return self._outer(STORAGE_PUSH, block)

    def _outer(self, storage: int, type_id: int) -> int:
        pointer = self.pointer(storage, type_id)
        found = self.new()
        self._put(self._globals, 59, pointer, found, storage)
        self._interface.append(found)
        return found

    # -- the whole -----------------------------------------------------------------------------

    def words(self, threads: Sequence[int], *, loose: bool = False) -> bytes:
        """The module, with its entry point `main` and groups of `threads`.

        Args:
            loose: it needs no `CONTROLS`.
        """
        void = self.type("void")
        function = self._global(("function",), 33, void)
        out: list[int] = []
        halves = _HALVES if ("type", "uint16") in self._types else ()
        memory = (_VULKAN_MEMORY,) if self.vulkan_memory else ()
        for capability in (*_CAPABILITIES, *halves, *memory, *self._needs):
            self._put(out, 17, capability)
        for extension in sorted(set(self._needs.values()) - {""}):
            self._put(out, 10, *_string(extension))
        self._put(out, 11, self.extended, *_string("GLSL.std.450"))
        self._put(out, 14, 5348, 3 if self.vulkan_memory else 1)  # PhysicalStorageBuffer64
        self._put(out, 15, 5, self.entry, *_string("main"), *self._interface)
        self._put(out, 16, self.entry, 17, *threads)
        out += self._decorations
        out += self._globals
        self._put(out, 54, void, self.entry, 0, function)
        self._put(out, 248, self.first_label)
        out += self._variables
        out += self.body
        self._put(out, 253)
        self._put(out, 56)
        header = [_MAGIC, _VERSION, _LOOSE if loose else 0, self._next, 0]
        return struct.pack(f"<{len(header) + len(out)}I", *header, *out)


def loose(words: bytes) -> bool:
    """Was the module written so that it needs no `CONTROLS`?"""
    (maker,) = struct.unpack_from("<I", words, 8)
    return bool(maker == _LOOSE)


def controlled(words: bytes, controls: Iterable[str]) -> bytes:
    """The same module, asking the driver for some of `CONTROLS` in float32 arithmetic."""
    asked = [CONTROLS[control] for control in controls]
    if not asked:
        return words
    given = struct.unpack(f"<{len(words) // 4}I", words)
    capabilities: list[int] = []
    modes: list[int] = []
    for capability, mode in asked:
        Module._put(capabilities, 17, capability)
        Module._put(modes, 16, _ENTRY, mode, 32)
    place = _HEADER_WORDS
    while given[place] & 0xFFFF != 16:  # the first execution mode: the size of a group
        place += given[place] >> 16
    out = [*given[:_HEADER_WORDS], *capabilities, *given[_HEADER_WORDS:place], *modes]
    out += given[place:]
    return struct.pack(f"<{len(out)}I", *out)
