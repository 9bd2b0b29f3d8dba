"""The canonical bytes of a graph, and its hash.

Owns: format 1. Equal graphs have equal bytes and no other bytes decode: numbers are LEB128 in their
shortest form, specs of node outputs are not stored but inferred, attributes stand in declared
order without names. No name of a person's program is in it, ever. The decoder is bounded: it
reads sizes before it makes anything, and a count can never exceed the bytes that are left.

    graph     = magic "gpgG", version 1, program
    program   = inputs, constants, nodes, outputs
    inputs    = count, spec*            spec      = dtype (1 byte), rank, extent*
    constants = count, (spec, bytes)*   nodes     = count, node*
    node      = operator, version, attribute*, count, value*
    outputs   = count, value*           operator  = length (1 byte), ASCII
    attribute = int: zigzag | bool: 1 byte | ints: count, zigzag* | choice: 1 byte | dtype: 1 byte
              | formula: count, (function, count, node*, value, dtype (1 byte, 255 for none))*
              | graph: program, whose nodes hold programs at most 4 deep
"""

from __future__ import annotations

from typing import Final, NoReturn

from gpugoblin import hashing
from gpugoblin.catalog import registry
from gpugoblin.catalog.formula import MAX_FORMULA_NODES, Formula, FormulaNode
from gpugoblin.catalog.spec import Attribute, AttrValue, Operator, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.check import LIMITS, GraphLimits, apply, check, check_spec
from gpugoblin.graph.ir import Constant, Graph, Node
from gpugoblin.ids import GraphHash

__all__ = ["FORMAT_VERSION", "decode", "encode", "graph_hash"]

FORMAT_VERSION: Final = 1
_MAGIC: Final = b"gpgG"
_DTYPES: Final = (
    "float32", "int32", "int64", "bool", "int8", "int16", "uint8", "float16", "bfloat16",
    "float64",
)  # fmt: skip
"""Dtype codes are places in this list: it only ever grows at the end."""

_NO_DTYPE: Final = 255
_NAME_BYTES: Final = 32


def encode(graph: Graph) -> bytes:
    """The canonical bytes of a graph that passes `check`.

    Raises:
        GraphError: as `check`.
    """
    check(graph)
    out = bytearray(_MAGIC)
    out.append(FORMAT_VERSION)
    _put_program(out, graph)
    if len(out) > LIMITS.encoded_bytes:
        _over("bytes", len(out), LIMITS.encoded_bytes)
    return bytes(out)


def _put_program(out: bytearray, graph: Graph) -> None:
    _put_count(out, len(graph.inputs))
    for spec in graph.inputs:
        _put_spec(out, spec)
    _put_count(out, len(graph.constants))
    for constant in graph.constants:
        _put_spec(out, constant.spec)
        out += constant.data
    _put_count(out, len(graph.nodes))
    for node in graph.nodes:
        _put_name(out, node.operator)
        _put_count(out, node.version)
        operator = registry.get(node.operator, node.version)
        for attribute, (_, value) in zip(operator.attributes, node.attributes, strict=True):
            _put_attribute(out, attribute, value)
        _put_values(out, node.inputs)
    _put_values(out, graph.outputs)


def decode(data: bytes | bytearray | memoryview, limits: GraphLimits = LIMITS) -> Graph:
    """The graph of canonical bytes; it has passed `check`.

    Raises:
        GraphError: graph_bytes_malformed, over_limit, or as `check`.
    """
    if len(data) > limits.encoded_bytes:
        _over("bytes", len(data), limits.encoded_bytes)
    reader = _Reader(bytes(data))
    if reader.take(len(_MAGIC)) != _MAGIC:
        reader.bad("it does not begin as a graph")
    if reader.byte() != FORMAT_VERSION:
        reader.bad("the format version is unknown")
    graph = _read_program(reader, limits)
    if reader.left:
        reader.bad("bytes follow the end")
    check(graph, limits)
    return graph


def _read_program(reader: _Reader, limits: GraphLimits) -> Graph:
    inputs = tuple(
        reader.spec(f"input {number}", limits)
        for number in range(reader.count("inputs", limits.inputs))
    )
    constants: list[Constant] = []
    for number in range(reader.count("constants", limits.constants)):
        spec = reader.spec(f"constant {number}", limits)
        if spec.nbytes > limits.constant_bytes:
            _over("bytes in a constant", spec.nbytes, limits.constant_bytes)
        constants.append(Constant(spec, reader.take(spec.nbytes)))
    specs = [*inputs, *(constant.spec for constant in constants)]
    nodes: list[Node] = []
    for number in range(reader.count("nodes", limits.nodes)):
        node = _read_node(reader, specs, f"node {number}", limits)
        specs.extend(node.outputs)
        nodes.append(node)
    outputs = reader.values("outputs", limits.outputs)
    if any(value >= len(specs) for value in outputs):
        reader.bad("an output is not a value")
    return Graph(inputs, tuple(constants), tuple(nodes), outputs)


def graph_hash(graph: Graph) -> GraphHash:
    """The name of a graph: BLAKE3-256 of its canonical bytes, 64 hexadecimal digits.

    Raises:
        GraphError: as `check`.
    """
    return GraphHash(hashing.digest(hashing.GRAPH, encode(graph)))


def _put_count(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_int(out: bytearray, value: int) -> None:
    _put_count(out, 2 * value if value >= 0 else -2 * value - 1)


def _put_name(out: bytearray, name: str) -> None:
    raw = name.encode("ascii")
    out.append(len(raw))
    out += raw


def _put_values(out: bytearray, values: tuple[int, ...]) -> None:
    _put_count(out, len(values))
    for value in values:
        _put_count(out, value)


def _put_spec(out: bytearray, spec: TensorSpec) -> None:
    out.append(_DTYPES.index(spec.dtype))
    _put_values(out, spec.shape)


def _put_attribute(out: bytearray, attribute: Attribute, value: AttrValue) -> None:
    if isinstance(value, bool):
        out.append(value)
    elif isinstance(value, int):
        _put_int(out, value)
    elif isinstance(value, tuple):
        _put_count(out, len(value))
        for item in value:
            _put_int(out, item)
    elif isinstance(value, str):
        known = attribute.choices if attribute.kind == "choice" else _DTYPES
        out.append(known.index(value))
    elif isinstance(value, Graph):
        _put_program(out, value)
    else:
        _put_count(out, len(value.nodes))
        for node in value.nodes:
            _put_name(out, node.function)
            _put_values(out, node.operands)
            _put_count(out, node.value)
            out.append(_DTYPES.index(node.dtype) if node.dtype else _NO_DTYPE)


def _read_node(reader: _Reader, specs: list[TensorSpec], where: str, limits: GraphLimits) -> Node:
    operator = registry.get(reader.name(), reader.number())
    attributes = tuple(
        (attribute.name, _read_attribute(reader, operator, attribute, limits))
        for attribute in operator.attributes
    )
    inputs = reader.values("inputs of a node", limits.node_inputs)
    if any(value >= len(specs) for value in inputs):
        reader.bad(f"{where} reads a value that is not an earlier one")
    outputs = apply(operator, [specs[value] for value in inputs], attributes, where, limits)
    return Node(operator.name, operator.version, attributes, inputs, outputs)


def _read_attribute(
    reader: _Reader, operator: Operator, attribute: Attribute, limits: GraphLimits
) -> AttrValue:
    match attribute.kind:
        case "int":
            return reader.integer()
        case "bool":
            return reader.choice((False, True))
        case "ints":
            count = reader.count(f"integers in {attribute.name} of {operator.key}", 64)
            return tuple(reader.integer() for _ in range(count))
        case "choice":
            return reader.choice(attribute.choices)
        case "dtype":
            return reader.choice(_DTYPES)
        case "graph":
            return _read_program(reader, limits.inside())
    count = reader.count("nodes of a formula", MAX_FORMULA_NODES)
    return Formula(tuple(_read_formula_node(reader) for _ in range(count)))


def _read_formula_node(reader: _Reader) -> FormulaNode:
    function = reader.name()
    operands = reader.values("operands of a formula node", 8)
    value = reader.number()
    return FormulaNode(function, operands, value, reader.dtype_or_none())


class _Reader:
    """A bounded cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._offset

    def bad(self, reason: str) -> NoReturn:
        raise GraphError("graph_bytes_malformed", offset=self._offset, reason=reason)

    def take(self, count: int) -> bytes:
        if count > self.left:
            self.bad("it ends too early")
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """An unsigned LEB128 of at most 64 bits in its shortest form."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                self.bad("a number has more than 64 bits")
        if value >= 2**64:
            self.bad("a number has more than 64 bits")
        if byte == 0 and shift:
            self.bad("a number is not in its shortest form")
        return value

    def integer(self) -> int:
        value = self.number()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def count(self, what: str, limit: int) -> int:
        """A count of things that take at least one byte each."""
        value = self.number()
        if value > limit:
            _over(what, value, limit)
        if value > self.left:
            self.bad(f"fewer bytes follow than {what} are announced")
        return value

    def values(self, what: str, limit: int) -> tuple[int, ...]:
        return tuple(self.number() for _ in range(self.count(what, limit)))

    def choice(self, known: tuple[AttrValue, ...]) -> AttrValue:
        place = self.byte()
        if place >= len(known):
            self.bad("a choice is unknown")
        return known[place]

    def dtype_or_none(self) -> str:
        place = self.byte()
        if place == _NO_DTYPE:
            return ""
        if place >= len(_DTYPES):
            self.bad("a dtype is unknown")
        return _DTYPES[place]

    def name(self) -> str:
        length = self.byte()
        if length > _NAME_BYTES:
            self.bad("a name is too long")
        raw = self.take(length)
        if not raw.isascii():
            self.bad("a name is not ASCII")
        return raw.decode("ascii")

    def spec(self, where: str, limits: GraphLimits) -> TensorSpec:
        dtype = self.dtype_or_none()
        if not dtype:
            self.bad("a dtype is unknown")
        spec = TensorSpec(dtype, self.values(f"axes in {where}", limits.rank))
        check_spec(spec, where, limits)
        return spec


def _over(what: str, value: int, limit: int) -> NoReturn:
    raise GraphError("over_limit", where="the graph", what=what, value=value, limit=limit)
