"""A graph with a symbolic batch axis: a template that is bound to a batch size before it is sent.

Owns: `unify`, which finds the template of which two graphs are instances, `bind`, and the bytes and
the hash of a template. Everything in a graph that follows the batch (extents, whole numbers among
attributes and constants) is `base + step * batch`; everything else is the same for every size.
A bound graph is a graph like any other: nothing that sees graphs knows of templates. Must not: know
where the two graphs came from; who made them compares `bind` with a third.

    template = magic "gpgT", version 1, length (8 bytes), graph at batch 2, graph at batch 3
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from gpugoblin import hashing
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.spec import AttrValue, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.check import check
from gpugoblin.graph.ir import Constant, Graph, Node
from gpugoblin.graph.serialize import decode, encode

__all__ = ["Template", "decode_template", "encode_template", "template_hash", "unify"]

_MAGIC: Final = b"gpgT\x01"
_SIZES: Final = (2, 3)
"""The batch sizes of the two graphs of the canonical bytes."""

_LARGEST_WHOLE: Final = 1 << 24
"""Below it float32 has every whole number."""


@dataclass(frozen=True, slots=True)
class Template:
    """Two instances, at two batch sizes; they determine all others.

    Args:
        one, other: graphs of the same nodes, at the sizes `at` and `beside`.
    """

    one: Graph
    other: Graph
    at: int
    beside: int

    def bind(self, batch: int) -> Graph:
        """The graph at a batch size of at least 1. It has passed `check`.

        Raises:
            GraphError: as `check`; over_limit for a batch that makes it too large.
        """
        if batch < 1:
            raise GraphError("graph_malformed", where="bind", reason=f"a batch of {batch} is none")

        def along(one: int, other: int, where: str) -> int:
            return one + _step(one, other, self, where) * (batch - self.at)

        graph = _Merge(along).graph(self.one, self.other)
        check(graph)
        return graph


def unify(one: Graph, at: int, other: Graph, beside: int) -> Template:
    """The template of which both graphs are instances.

    Args:
        at, beside: their batch sizes, not equal.

    Raises:
        GraphError: not_a_template, with the first place where they do not agree.
    """
    if at == beside:
        raise GraphError("not_a_template", where="both", reason=f"the batch is {at} in both")
    found = Template(one, other, at, beside)
    _Merge(lambda a, b, where: a + _step(a, b, found, where)).graph(one, other)
    return found


def _step(one: int, other: int, template: Template, where: str) -> int:
    step, rest = divmod(other - one, template.beside - template.at)
    if rest:
        reason = (
            f"{one} at batch {template.at} and {other} at batch {template.beside} are on no line"
        )
        raise GraphError("not_a_template", where=where, reason=reason)
    return step


def _apart(where: str, one: object, other: object) -> GraphError:
    return GraphError("not_a_template", where=where, reason=f"{one} is not {other}")


@dataclass(frozen=True, slots=True)
class _Merge:
    """One walk over two graphs at once; `along` gives what stands for two whole numbers."""

    along: Callable[[int, int, str], int]

    def graph(self, one: Graph, other: Graph) -> Graph:
        sizes = [len(part) for part in (one.inputs, one.constants, one.nodes)]
        others = [len(part) for part in (other.inputs, other.constants, other.nodes)]
        if sizes != others or one.outputs != other.outputs:
            raise _apart("the numbers of inputs, constants and nodes", sizes, others)
        return Graph(
            inputs=tuple(
                self.spec(a, b, f"input {place}")
                for place, (a, b) in enumerate(zip(one.inputs, other.inputs, strict=True))
            ),
            constants=tuple(map(self.constant, one.constants, other.constants)),
            nodes=tuple(
                self.node(a, b, place)
                for place, (a, b) in enumerate(zip(one.nodes, other.nodes, strict=True))
            ),
            outputs=one.outputs,
        )

    def spec(self, one: TensorSpec, other: TensorSpec, where: str) -> TensorSpec:
        if one == other:
            return one
        if one.dtype != other.dtype or one.rank != other.rank:
            raise _apart(where, one, other)
        return TensorSpec(one.dtype, self.ints(one.shape, other.shape, where))

    def ints(self, one: Sequence[int], other: Sequence[int], where: str) -> tuple[int, ...]:
        if len(one) != len(other):
            raise _apart(where, tuple(one), tuple(other))
        return tuple(
            a if a == b else self.along(a, b, where) for a, b in zip(one, other, strict=True)
        )

    def constant(self, one: Constant, other: Constant) -> Constant:
        if one == other:
            return one
        if one.spec != other.spec:
            raise _apart("a constant", one.spec, other.spec)
        first, second = one.array(), other.array()
        flat = [
            self.number(a, b, "a constant")
            for a, b in zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True)
        ]
        return replace(one, data=np.array(flat, first.dtype).tobytes())

    def number(self, one: Any, other: Any, where: str) -> Any:
        """Whole numbers alone follow the batch: counts, and what a mean divides by."""
        if one == other:
            return one
        if float(one).is_integer() and float(other).is_integer():
            found = self.along(int(one), int(other), where)
            if abs(found) <= _LARGEST_WHOLE or isinstance(one, int):
                return type(one)(found)
        raise _apart(where, one, other)

    def node(self, one: Node, other: Node, place: int) -> Node:
        where = f"node {place} ({one.operator})"
        same = (one.operator, one.version, one.inputs) == (
            other.operator,
            other.version,
            other.inputs,
        )
        if not same or len(one.outputs) != len(other.outputs):
            raise _apart(where, one.operator, other.operator)
        attributes = tuple(
            (name, self.attribute(value, against, f"{where}, {name}"))
            for (name, value), (_, against) in zip(one.attributes, other.attributes, strict=True)
        )
        outputs = tuple(
            self.spec(a, b, where) for a, b in zip(one.outputs, other.outputs, strict=True)
        )
        return Node(one.operator, one.version, attributes, one.inputs, outputs)

    def attribute(self, one: AttrValue, other: AttrValue, where: str) -> AttrValue:
        if one == other:
            return one
        if isinstance(one, Formula) and isinstance(other, Formula):
            return self.formula(one, other, where)
        if isinstance(one, Graph) and isinstance(other, Graph):
            return self.graph(one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return self.ints(one, other, where)
        whole = isinstance(one, int) and not isinstance(one, bool)
        if whole and isinstance(other, int):
            return self.along(int(one), other, where)  # type: ignore[arg-type]
        raise _apart(where, one, other)

    def formula(self, one: Formula, other: Formula, where: str) -> Formula:
        if len(one.nodes) != len(other.nodes):
            raise _apart(where, "a formula", "the other")
        return Formula(
            tuple(self.term(a, b, where) for a, b in zip(one.nodes, other.nodes, strict=True))
        )

    def term(self, one: FormulaNode, other: FormulaNode, where: str) -> FormulaNode:
        if one == other:
            return one
        if one.function != "const" or replace(one, value=other.value) != other:
            raise _apart(where, one.function, other.function)
        read = _NUMBERS.get(one.dtype)
        if read is None:
            raise _apart(where, one.value, other.value)
        pattern, kind = read
        first, second = (
            struct.unpack(kind, struct.pack(pattern, node.value))[0] for node in (one, other)
        )
        found = self.number(first, second, where)
        return replace(one, value=struct.unpack(pattern, struct.pack(kind, found))[0])


_NUMBERS: Final = {"float32": ("<I", "<f"), "int32": ("<I", "<i"), "int64": ("<Q", "<q")}
"""How the bits of a constant in a formula are read, by dtype."""


def encode_template(template: Template) -> bytes:
    """The canonical bytes: the same for every pair of sizes that a template was found at.

    Raises:
        GraphError: as `bind`.
    """
    low, high = (encode(template.bind(size)) for size in _SIZES)
    return _MAGIC + struct.pack("<Q", len(low)) + low + high


def decode_template(data: bytes | bytearray | memoryview) -> Template:
    """The template of canonical bytes.

    Raises:
        GraphError: graph_bytes_malformed, not_a_template, or as `decode`.
    """
    given = bytes(data)
    head = len(_MAGIC) + 8
    if given[: len(_MAGIC)] != _MAGIC or len(given) < head:
        raise GraphError(
            "graph_bytes_malformed", offset=0, reason="it does not begin as a template"
        )
    (length,) = struct.unpack("<Q", given[len(_MAGIC) : head])
    if length > len(given) - head:
        raise GraphError("graph_bytes_malformed", offset=head, reason="the first graph is cut off")
    low, high = decode(given[head : head + length]), decode(given[head + length :])
    return unify(low, _SIZES[0], high, _SIZES[1])


def template_hash(template: Template) -> str:
    """The name of a template: BLAKE3-256 of its canonical bytes, 64 hexadecimal digits.

    Raises:
        GraphError: as `bind`.
    """
    return hashing.digest(hashing.TEMPLATE, encode_template(template))
