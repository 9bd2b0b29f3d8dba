"""What a card's matrix units reach when nothing is read or written: the bound of their kernels.

Owns: the kernel that multiplies the same matrices again and again, and its rate.
"""

from __future__ import annotations

from typing import Final

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.fragments import Fragment
from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.card.matrices import LEFT, RIGHT, SUMS, Matrix, MatrixKernel, Vectors
from app.engine.backends.card.stages import Stage, stage
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.program import CardProgram
from benchmarks.engine_cases import product_graph, timed

__all__ = ["matrix_peak"]

SUBGROUPS: Final = 8
TILES: Final = 4
"""Matrices of each operand: as many sums as hide the time that one product takes."""
ROUNDS: Final = 4096
GROUPS: Final = 2048
"""More than any card computes at once, and few enough for a fraction of a second."""
SIZE: Final = 256


def matrix_peak(card: Machine, form: str) -> float | None:
    """Floating-point operations a second on operands of a form; None where there are no units."""
    fragments = card.device.units.fragments.get(form)
    if not fragments:
        return None
    fragment = max(fragments, key=lambda one: one.rows * one.columns * one.terms)
    only = _stage(form, fragment, card.device.units.subgroup)
    layout = lay_out(
        require_served(product_graph(SIZE)),
        lambda node, specs: Emission((only,)),
        page_bytes=card.page_bytes,
    )
    program = CardProgram(card, layout)
    products = TILES**2 * ROUNDS * SUBGROUPS * GROUPS
    found = 2.0 * fragment.rows * fragment.columns * fragment.terms * products / timed(program)
    program.release()
    return found


def _stage(form: str, shape: Fragment, subgroup: int) -> Stage:
    kernel = MatrixKernel(3, SUBGROUPS * subgroup)
    vectors = max(shape.rows, shape.columns, shape.terms) ** 2 // 8
    shared = Vectors(kernel, "uint32x4", vectors * TILES)
    zero = kernel.number("uint32", 0)
    with kernel.loop(kernel.local(), vectors * TILES, kernel.threads) as place:
        shared.set(place, kernel.join([place, zero, place, zero]))
    kernel.barrier()
    kinds = (
        Matrix(form, shape.rows, shape.terms, LEFT),
        Matrix(form, shape.terms, shape.columns, RIGHT),
        Matrix("float32", shape.rows, shape.columns, SUMS),
    )
    lefts, rights = (
        [
            kernel.load_matrix(kind, shared, vectors * tile, kind.columns // 8, turned=False)
            for tile in range(TILES)
        ]
        for kind in kinds[:2]
    )
    sums = [[kernel.held(kinds[2]) for _ in rights] for _ in lefts]
    for total in (total for line in sums for total in line):
        total.set(kernel.zeros(kinds[2]))
    with kernel.loop(0, ROUNDS):
        for line, left in zip(sums, lefts, strict=True):
            for total, right in zip(line, rights, strict=True):
                total.set(kernel.multiply_add(left, right, total.get(), kinds[2]))
    first = kernel.subgroup() * (shape.rows * shape.columns)
    for total in (total for line in sums for total in line):
        kernel.store_matrix(total.get(), kernel.place(2, first, 4), shape.columns, 16)
    return stage(kernel, GROUPS)
