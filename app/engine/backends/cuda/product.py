"""Products of matrices by cuBLAS, in the precision that the numeric class demands.

Owns: the description of one product, and the call. float32 stays float32: TF32 is used only where
both operands are known to be rounded to it already, so that nothing is lost.

Sums of float32 are made by ordinary arithmetic units one term after the other, so they are cut at
the catalog's block; tensor cores add sixteen terms and more at a time.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from app.engine.backends.card.product import Problem
from app.engine.backends.cuda.device import Device
from app.engine.backends.cuda.loader import Library, blas, require_blas
from gpugoblin.catalog.rounding import MATMUL_BLOCK

__all__ = ["FORMATS", "Blas", "Gemm"]

WORKSPACE_BYTES: Final = 32 * 1024 * 1024
"""NVIDIA's advice for cards of compute capability 9.0; fixed, so that nothing is taken later."""

_FLOAT32: Final = 0
FORMATS: Final = {"float32": 0, "tf32": 0, "float16": 2, "bfloat16": 14}
"""How operands lie in memory, in numbers of `cudaDataType`."""
_WIDTHS: Final = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}
_COMPUTE: Final = {"float32": 68, "tf32": 77, "float16": 68, "bfloat16": 68}
"""Sums of float32: CUBLAS_COMPUTE_32F, and CUBLAS_COMPUTE_32F_FAST_TF32."""
_DEFAULT: Final = -1
SMALL: Final = 512 * 512
"""Elements of a result that do not fill a large card."""
MOST_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class Gemm:
    """One product in C order.

    Args:
        form: a key of `FORMATS`.
        parts: the terms are cut in so many, the sums of which are results of their own, one behind
            the other; of a single product. They add up to what is wanted.
    """

    problem: Problem
    form: str = "float32"
    parts: int = 1

    def steps(self) -> tuple[int, int, int]:
        """Elements from one matrix of a batch to the next: left, right, result."""
        p = self.problem
        if self.parts == 1:
            return p.left_step, p.k * p.n, p.m * p.n
        terms = p.k // self.parts
        return terms * (p.m if p.across[0] else 1), terms * (1 if p.across[1] else p.n), p.m * p.n

    def pieces(self) -> list[tuple[int, int]]:
        """First and number of the terms that are added up at once."""
        k = self.problem.k // self.parts
        if self.form != "float32" or k <= MATMUL_BLOCK:
            return [(0, k)]
        return [(at, min(MATMUL_BLOCK, k - at)) for at in range(0, k, MATMUL_BLOCK)]

    @classmethod
    def of(cls, problem: Problem, form: str = "float32") -> Gemm:
        """Cut where a small result has a long sum, so that a large card has enough to do."""
        small = problem.batch == 1 and problem.m * problem.n <= SMALL
        if not small or problem.k <= MATMUL_BLOCK:
            return cls(problem, form)
        least = -(-problem.k // MATMUL_BLOCK)
        for parts in range(least, min(4 * least, MOST_PARTS) + 1):
            if problem.k % parts == 0:
                return cls(problem, form, parts)
        return cls(problem, form)


class Blas:
    """One handle of cuBLAS on a device's stream, with a workspace of its own, until `close`."""

    def __init__(self, device: Device, library: Library | None = None) -> None:
        self._device = device
        self._library = blas() if library is None else library
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        doing = "opening cuBLAS"
        require_blas(self._library.cublasCreate_v2(ctypes.byref(self._handle)), doing)
        require_blas(self._library.cublasSetStream_v2(self._handle, device.stream), doing)
        self._workspace = device.allocate(WORKSPACE_BYTES)
        require_blas(
            self._library.cublasSetWorkspace_v2(self._handle, self._workspace, WORKSPACE_BYTES),
            doing,
        )
        require_blas(self._library.cublasSetMathMode(self._handle, 0), doing)

    def run(self, gemm: Gemm, left: int, right: int, out: int) -> None:
        """Queues a product of matrices at these addresses.

        cuBLAS counts columns first, so the transposed result is the product of the operands in the
        other order, each as it lies.
        """
        p, width = gemm.problem, _WIDTHS[gemm.form]
        first, second, third = gemm.steps()
        for at, count in gemm.pieces():
            beta = self._one if at else self._zero
            a = left + width * at * (p.m if p.across[0] else 1)
            b = right + width * at * (1 if p.across[1] else p.n)
            result = self._library.cublasGemmStridedBatchedEx(
                *(self._handle, int(p.across[1]), int(p.across[0]), p.n, p.m, count),
                ctypes.addressof(self._one),
                *(b, FORMATS[gemm.form], p.k if p.across[1] else p.n, second),
                *(a, FORMATS[gemm.form], p.m if p.across[0] else p.k, first),
                ctypes.addressof(beta),
                *(out, _FLOAT32, p.n, third, p.batch * gemm.parts, _COMPUTE[gemm.form], _DEFAULT),
            )
            require_blas(result, "multiplying matrices")

    def close(self) -> None:
        if self._handle is not None:
            self._library.cublasDestroy_v2(self._handle)
            self._device.free(self._workspace)
            self._handle = None
