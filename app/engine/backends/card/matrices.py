"""Kernels whose threads hold matrices together (SPV_KHR_cooperative_matrix).

Owns: the language of such matrices: loads, sums of products, stores. Must not: choose sizes.

In the memory model that they need, what a group shares is marked as shared at each access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.spirv import STORAGE_PHYSICAL, STORAGE_SHARED
from app.engine.backends.card.values import Value

__all__ = ["LEFT", "RIGHT", "SUMS", "Held", "Matrix", "MatrixKernel", "Vectors"]

_GROUP: Final = 2
_SUBGROUP: Final = 3
"""Scopes: which threads hold a matrix, or see what is shared."""
LEFT: Final = 0
RIGHT: Final = 1
SUMS: Final = 2
"""What a matrix is in a product."""

_VISIBLE: Final = 0x10 | 0x20
_AVAILABLE: Final = 0x08 | 0x20
"""MakePointerVisible and MakePointerAvailable, each with NonPrivatePointer."""
_ALIGNED: Final = 2
_SUBGROUP_ID: Final = 40
_GROUP_NON_UNIFORM: Final = 61


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a matrix is: elements of `kind`, held by a subgroup."""

    kind: str
    rows: int
    columns: int
    use: int


class Held:
    """A matrix that the threads keep over turns of a loop."""

    def __init__(self, kernel: MatrixKernel, matrix: Matrix) -> None:
        self._kernel = kernel
        self.matrix = matrix
        self._id = kernel.module.variable_of(kernel.matrix_type(matrix))

    def get(self) -> int:
        module = self._kernel.module
        return module.result("Load", self._kernel.matrix_type(self.matrix), self._id)

    def set(self, matrix: int) -> None:
        self._kernel.module.put("Store", self._id, matrix)


class Vectors:
    """An array that a group shares, of 16 bytes an element (`uint32x4`), or of float32."""

    def __init__(self, kernel: MatrixKernel, kind: str, count: int) -> None:
        self._kernel, self.kind = kernel, kind
        self._id = kernel.module.shared(kind, count)

    def place(self, index: Value | int) -> int:
        module = self._kernel.module
        pointer = module.pointer(STORAGE_SHARED, module.type(self.kind))
        index = self._kernel.lift(index, "uint32")
        return module.result("AccessChain", pointer, self._id, index.id)

    def get(self, index: Value | int) -> Value:
        module, kernel = self._kernel.module, self._kernel
        found = module.result(
            *("Load", module.type(self.kind), self.place(index)),
            *(_VISIBLE, kernel.scope(_GROUP)),
        )
        return Value(kernel, self.kind, found)

    def set(self, index: Value | int, value: Value) -> None:
        kernel = self._kernel
        kernel.module.put("Store", self.place(index), value.id, _AVAILABLE, kernel.scope(_GROUP))


class MatrixKernel(Kernel):
    """A kernel with matrices; in groups of whole subgroups."""

    def __init__(self, addresses: int, threads: int) -> None:
        super().__init__(addresses, threads, contract=True, loose=True)
        self.module.need(_GROUP_NON_UNIFORM)
        self._subgroup = self.module.builtin(_SUBGROUP_ID, "uint32")

    def scope(self, number: int) -> int:
        """A constant that an instruction takes beside its operands."""
        return self.module.constant("uint32", number)

    def subgroup(self) -> Value:
        """The number of the subgroup in its group."""
        return self.loaded("uint32", self._subgroup)

    def matrix_type(self, matrix: Matrix) -> int:
        return self.module.matrix(matrix.kind, _SUBGROUP, matrix.rows, matrix.columns, matrix.use)

    def held(self, matrix: Matrix) -> Held:
        return Held(self, matrix)

    def zeros(self, matrix: Matrix) -> int:
        return self.module.filled(self.matrix_type(matrix), 0, matrix.kind)

    def load_matrix(
        self, matrix: Matrix, shared: Vectors, index: Value | int, stride: int, *, turned: bool
    ) -> int:
        """A matrix out of shared memory, whose rows (columns where it is `turned`) begin `stride`
        elements of the array apart."""
        return self.module.result(
            *("CooperativeMatrixLoadKHR", self.matrix_type(matrix), shared.place(index)),
            *(self.scope(int(turned)), self.scope(stride), _VISIBLE, self.scope(_GROUP)),
        )

    def share_matrix(self, matrix: int, shared: Vectors, index: Value | int, stride: int) -> None:
        """Puts a matrix of float32 into shared memory, row by row."""
        self.module.put(
            *("CooperativeMatrixStoreKHR", shared.place(index), matrix),
            *(self.scope(0), self.scope(stride), _AVAILABLE, self.scope(_GROUP)),
        )

    def store_matrix(self, matrix: int, address: Value, stride: int, aligned: int) -> None:
        """Puts a matrix of float32 into memory, its rows `stride` elements apart."""
        module = self.module
        block = module.result("ConvertUToPtr", module.run("float32", 4), address.id)
        pointer = module.pointer(STORAGE_PHYSICAL, module.type("float32"))
        zero = self.scope(0)
        first = module.result("AccessChain", pointer, block, zero, zero)
        module.put(
            *("CooperativeMatrixStoreKHR", first, matrix),
            *(zero, self.scope(stride), _ALIGNED, aligned),
        )

    def multiply_add(self, left: int, right: int, sums: int, kind: Matrix) -> int:
        return self.module.result(
            "CooperativeMatrixMulAddKHR", self.matrix_type(kind), left, right, sums
        )

    def meet(self) -> None:
        """All threads of the subgroup meet here and see what the others shared."""
        scope = self.scope(_SUBGROUP)
        self.module.put("ControlBarrier", scope, scope, self.module.constant("uint32", 0x108))
