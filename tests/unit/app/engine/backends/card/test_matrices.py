from __future__ import annotations

import struct
from pathlib import Path

import pytest

from app.engine.backends.card.matrices import LEFT, SUMS, Matrix, MatrixKernel, Vectors
from tests.helpers.formulas import judge, knows


def made() -> MatrixKernel:
    kernel = MatrixKernel(1, 64)
    shared = Vectors(kernel, "uint32x4", 64)
    shared.set(kernel.local(), kernel.join([kernel.number("uint32", 1)] * 4))
    kernel.barrier()
    left = kernel.load_matrix(Matrix("float16", 16, 16, LEFT), shared, 0, 2, turned=False)
    right = kernel.load_matrix(Matrix("float16", 16, 16, 1), shared, 0, 2, turned=True)
    total = kernel.held(Matrix("float32", 16, 16, SUMS))
    total.set(kernel.zeros(total.matrix))
    total.set(kernel.multiply_add(left, right, total.get(), total.matrix))
    kernel.store_matrix(total.get(), kernel.place(0, kernel.subgroup() * 256, 4), 16, 16)
    return kernel


def test_module_is_valid(tmp_path: Path) -> None:
    if not knows(tmp_path, "float16"):
        pytest.skip("no spirv-val here knows cooperative matrices")
    assert judge(made().words(), tmp_path) == ""


def test_shared_memory_is_marked_in_the_memory_model_of_matrices() -> None:
    words = made().words()
    numbers = struct.unpack(f"<{len(words) // 4}I", words)
    place, found = 5, []
    while place < len(numbers):
        length, opcode = numbers[place] >> 16, numbers[place] & 0xFFFF
        found.append((opcode, numbers[place + 1 : place + length]))
        place += length
    assert [operands[1] for opcode, operands in found if opcode == 14] == [3]  # Vulkan
    loads = [operands for opcode, operands in found if opcode == 4457]
    assert len(loads) == 2
    assert all(operands[5] == 0x30 for operands in loads)
    assert len({operands[3] for operands in loads}) == 2  # row by row, and column by column
