"""Which graphs are products, or factorizations, that random projections can check.

Owns: `product_form` and `factor_form`, the two recognizers; planner and checker both ask them, so
what a plan promises is what the check understands. Must not: compute.

A product is a graph with one output: `matmul` of two inputs (or of one with itself), alone or with
an input of the output's own shape added to it (the carry of a reduction that was cut). Each operand
may be transposed over its last two axes, inside `matmul` or by a `permute` in front of it.

A factorization is a graph of one node of linear algebra that reads inputs only and gives all of its
results: with a factor left out, the others do not make up the operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["FACTORIZATIONS", "FactorForm", "ProductForm", "factor_form", "product_form"]

FACTORIZATIONS: Final = ("cholesky", "lu", "qr", "eigh", "svd", "triangular_solve", "solve")
"""Operators whose results, multiplied together, give an operand."""


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A product: input `left` times input `right`, plus input `carry` where there is one.

    Args:
        left, right, carry: numbers of the graph's inputs.
        transpose_left, transpose_right: the operand's last two axes are swapped before the product.
        batch: leading axes of the output; operands broadcast over them.
        rows, inner, columns: one matrix product is `(rows, inner) @ (inner, columns)`.
        dtype: of all operands and of the output.
    """

    left: int
    right: int
    carry: int | None
    transpose_left: bool
    transpose_right: bool
    batch: tuple[int, ...]
    rows: int
    inner: int
    columns: int
    dtype: str

    @property
    def batch_count(self) -> int:
        return math.prod(self.batch)

    @property
    def flops(self) -> int:
        return 2 * self.batch_count * self.rows * self.inner * self.columns

    def with_rows(self, rows: int) -> ProductForm:
        """The same product for some of its rows."""
        return replace(self, rows=rows)

    def left_matrices(self, array: Array) -> Iterator[Array]:
        """The left operands as views of shape `(rows, inner)`, one a batch index."""
        return self._matrices(array, self.transpose_left)

    def right_matrices(self, array: Array) -> Iterator[Array]:
        """The right operands as views of shape `(inner, columns)`, one a batch index."""
        return self._matrices(array, self.transpose_right)

    def _matrices(self, array: Array, transpose: bool) -> Iterator[Array]:
        matrices = array.swapaxes(-1, -2) if transpose else array
        spread = np.broadcast_to(matrices, self.batch + matrices.shape[-2:])
        for index in np.ndindex(*self.batch):
            yield spread[index]


def product_form(graph: Graph) -> ProductForm | None:
    """The form of `graph` where it is a product, else None."""
    if len(graph.outputs) != 1 or graph.constants or not graph.nodes:
        return None
    makers = {value: node for value, node in graph.numbered_nodes() if len(node.outputs) == 1}
    if len(makers) != len(graph.nodes):
        return None
    used: set[int] = {graph.outputs[0]}
    product, carry = _split_carry(graph, graph.outputs[0], makers)
    if product is None or makers[product].operator != "matmul":
        return None
    used.add(product)
    node = makers[product]
    attrs = node.attrs
    sides: list[tuple[int, bool]] = []
    for value, name in zip(node.inputs, ("transpose_a", "transpose_b"), strict=True):
        source, swapped = _through_permute(value, makers)
        if source != value:
            used.add(value)
        if source >= len(graph.inputs):
            return None
        sides.append((source, swapped != bool(attrs.get(name, False))))
    (left, transpose_left), (right, transpose_right) = sides
    distinct = {left, right} | ({carry} if carry is not None else set())
    if used != set(makers) or len(distinct) != len(graph.inputs):
        return None
    return _form(graph, node.outputs[0], (left, transpose_left), (right, transpose_right), carry)


def _form(
    graph: Graph,
    output: TensorSpec,
    left: tuple[int, bool],
    right: tuple[int, bool],
    carry: int | None,
) -> ProductForm | None:
    specs = graph.specs()
    a, b = specs[left[0]], specs[right[0]]
    if a.rank < 2 or b.rank < 2 or output.rank < 2 or not a.dtype == b.dtype == output.dtype:
        return None
    if output.dtype not in ("float32", "float64", "int32", "int64"):
        return None
    return ProductForm(
        left=left[0],
        right=right[0],
        carry=carry,
        transpose_left=left[1],
        transpose_right=right[1],
        batch=output.shape[:-2],
        rows=output.shape[-2],
        inner=a.shape[-2] if left[1] else a.shape[-1],
        columns=output.shape[-1],
        dtype=output.dtype,
    )


def _split_carry(
    graph: Graph, value: int, makers: dict[int, Node]
) -> tuple[int | None, int | None]:
    """`(value of the matmul, input that is added to it)`."""
    node = makers.get(value)
    if node is None or node.operator == "matmul":
        return (value if node is not None else None), None
    if node.operator != "formula" or len(node.inputs) != 2 or not _is_plain_add(node):
        return None, None
    first, second = node.inputs
    product, carry = (first, second) if second < len(graph.inputs) else (second, first)
    if carry >= len(graph.inputs) or product not in makers:
        return None, None
    specs = graph.specs()
    if specs[carry] != specs[product]:
        return None, None
    return product, carry


def _is_plain_add(node: Node) -> bool:
    for value in node.attrs.values():
        if isinstance(value, Formula):
            nodes = value.nodes
            return (
                len(nodes) == 3
                and nodes[0].function == nodes[1].function == "input"
                and {nodes[0].value, nodes[1].value} == {0, 1}
                and nodes[2].function == "add"
                and set(nodes[2].operands) == {0, 1}
            )
    return False


def _through_permute(value: int, makers: dict[int, Node]) -> tuple[int, bool]:
    """Looks through a permute that swaps the last two axes: `(its source, True)`."""
    node = makers.get(value)
    if node is None or node.operator != "permute":
        return value, False
    axes = next((at for at in node.attrs.values() if isinstance(at, tuple)), ())
    rank = len(axes)
    if rank < 2 or axes != (*range(rank - 2), rank - 1, rank - 2):
        return value, False
    return node.inputs[0], True


@dataclass(frozen=True, slots=True)
class FactorForm:
    """A factorization, or a system that was solved.

    Args:
        operator: one of `FACTORIZATIONS`.
        attributes: of its node.
        operands: numbers of the graph's inputs, in the order of the operator's operands.
        results: for each result of the operator its place among the graph's outputs.
        batch: leading axes, which all operands and results share.
        shapes: of the matrices: of each operand, then of each result.
        dtype: of the operands, float32 or float64.
    """

    operator: str
    attributes: Attributes
    operands: tuple[int, ...]
    results: tuple[int, ...]
    batch: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str

    @property
    def batch_count(self) -> int:
        return math.prod(self.batch)

    @property
    def elements(self) -> int:
        """Of all operands and results."""
        return self.batch_count * sum(math.prod(shape) for shape in self.shapes)


def factor_form(graph: Graph) -> FactorForm | None:
    """The form of `graph` where it is a factorization, else None."""
    if len(graph.nodes) != 1 or graph.constants:
        return None
    node = graph.nodes[0]
    first = len(graph.inputs)
    made = [first + place for place in range(len(node.outputs))]
    if node.operator not in FACTORIZATIONS or sorted(graph.outputs) != made:
        return None
    specs = [graph.inputs[value] for value in node.inputs]
    if specs[0].dtype not in ("float32", "float64") or set(node.inputs) != set(range(first)):
        return None
    rank = specs[0].rank - 2
    return FactorForm(
        operator=node.operator,
        attributes=node.attrs,
        operands=tuple(node.inputs),
        results=tuple(graph.outputs.index(value) for value in made),
        batch=specs[0].shape[:rank],
        shapes=tuple(spec.shape[rank:] for spec in (*specs, *node.outputs)),
        dtype=specs[0].dtype,
    )
