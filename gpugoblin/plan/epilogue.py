"""Products with something before or after them, as tasks of their own.

Owns: which products of a graph are worth it. Must not: make stages.

A tile that is nothing but a product is checked by random projections for a small part of its flops.
Fused with what follows, it can only be recomputed by the lab. But the product alone is a result
that has to be sent, stored and read again. So a product is split off where checking and moving cost
the lab less than recomputing would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.cost import node_cost
from gpugoblin.graph.ir import Node
from gpugoblin.plan.checks import product_check_flops
from gpugoblin.plan.figures import FLOPS_PER_BYTE
from gpugoblin.plan.fit import Cut
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.tiles import TILE_COLUMNS, TILE_INNER, TILE_ROWS
from gpugoblin.plan.trees import cut_of_value
from gpugoblin.units import MIB

__all__ = ["PRODUCT_TILE_BYTES", "Product", "lone", "product_cut", "products"]

PRODUCT_TILE_BYTES = 384 * MIB
"""Products gain from large tiles: 1024 x 16384 by 16384 x 4096 with its result."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product that is worth a stage of its own.

    Args:
        value: what it makes.
        operands: the two values it reads; those of `prepared` have to be made before it.
    """

    value: int
    operands: tuple[int, int]
    prepared: tuple[int, ...]


def products(flow: Flow) -> tuple[Product, ...]:
    """The products of a graph that are worth a stage of their own, in order."""
    uses: dict[int, int] = {}
    for node in flow.graph.nodes:
        for value in set(node.inputs):
            uses[value] = uses.get(value, 0) + 1
    found: list[Product] = []
    for value, node in flow.graph.numbered_nodes():
        if node.operator != "matmul":
            continue
        left, right = node.inputs
        prepared = tuple(dict.fromkeys(one for one in (left, right) if not _readable(flow, one)))
        kept = value in flow.graph.outputs and value not in uses
        if kept and not prepared:
            # A plain product among the outputs is one however it is planned.
            continue
        if _gain(flow, value, node, prepared, kept=kept) > 0:
            found.append(Product(value, (left, right), prepared))
    return tuple(found)


def _gain(flow: Flow, value: int, node: Node, prepared: tuple[int, ...], *, kept: bool) -> int:
    """Flops that the lab saves: recomputing, less the check and the bytes that have to move."""
    a, out = flow.specs[node.inputs[0]], flow.specs[value]
    inner = a.shape[-2] if node.attrs["transpose_a"] else a.shape[-1]
    batch, rows, columns = prod(out.shape[:-2]), out.shape[-2], out.shape[-1]
    height, width = max(1, min(rows, TILE_ROWS)), max(1, min(columns, TILE_COLUMNS))
    tall, wide = -(-rows // height), -(-columns // width)
    check = tall * wide * product_check_flops(out.dtype, batch, height, inner, width, tall)
    moved = sum(2 * flow.specs[one].nbytes for one in prepared)
    moved += 0 if kept else 2 * out.nbytes
    return node_cost(node, flow.specs).flops - check - FLOPS_PER_BYTE * moved


def _readable(flow: Flow, value: int) -> bool:
    """Whether a box of the value is a box of an input, transposed at most."""
    turned = False
    while value in flow.makers:
        _, node = flow.makers[value]
        rank = node.outputs[0].rank
        if node.operator == "permute":
            swapped = (*range(rank - 2), rank - 1, rank - 2)
            if turned or node.attrs["axes"] != swapped:
                return False
            turned = True
        elif node.operator != "slice" or node.attrs["step"] != (1,) * rank:
            return False
        value = node.inputs[0]
    return value < len(flow.graph.inputs)


def lone(flow: Flow, product: Product) -> Flow:
    """The product alone, as a graph of two inputs: to choose its tiles."""
    _, node = flow.makers[product.value]
    builder = GraphBuilder()
    left, right = (builder.input(flow.specs[value]) for value in product.operands)
    made = builder.apply(node.operator, node.version, [left, right], dict(node.attributes))
    return Flow.of(builder.build(list(made)), ordered=flow.ordered)


def product_cut(flow: Flow, value: int, places: tuple[int | None, ...]) -> Cut:
    """The cut of a product: tiles start at the sizes that products like."""
    cut = cut_of_value(flow, value, places)
    (want,) = cut.wants
    steps = list(cut.extents)
    liked = dict(zip(want.loops[-2:], (TILE_ROWS, TILE_COLUMNS), strict=True))
    liked.update((loop, TILE_INNER) for _, loop in want.sums)
    for loop, step in liked.items():
        if loop is not None:
            steps[loop] = min(steps[loop], step)
    return replace(cut, steps=tuple(steps), aim_bytes=PRODUCT_TILE_BYTES)
