from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import Builder, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import GraphLimits
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import FORMAT_VERSION, decode, encode, graph_hash
from tests.helpers.graphs import graphs

GOLDEN = Path(__file__).parents[3] / "golden" / "graphs" / "graphs.json"


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def softmax(rows: int, columns: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input(f32(rows, columns))
    top = builder.add("reduce", [x], axes=(1,), function="max", keepdims=True)
    build = FormulaBuilder()
    tree = build.build(build.call("exp", build.call("sub", build.input(0), build.input(1))))
    shifted = builder.add("formula", [x, top], tree=tree)
    total = builder.add("reduce", [shifted], axes=(1,), function="sum", keepdims=True)
    return builder.build([builder.add("formula", [shifted, total], tree=call_formula("div"))])


def one(operator: str, *specs: TensorSpec, **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs]
    return builder.build(builder.add_many(operator, values, **attributes))


def with_constants() -> Graph:
    builder = GraphBuilder()
    x = builder.input(f32(2, 3))
    bias = builder.constant(np.array([1.5, -0.0, np.nan], np.float32))
    mask = builder.constant(np.array([True, False, True]))
    picked = builder.add("formula", [mask, x, bias], tree=call_formula("where"))
    return builder.build([picked, x, picked])


def looped() -> Graph:
    """A loop with a choice in its body, and a constant there."""
    builder = GraphBuilder()
    start, steps = builder.input(f32(3)), builder.input(f32(4, 3))

    def twice(inner: Builder, values: Sequence[int]) -> Sequence[int]:
        two = inner.constant(np.array(2, np.float32))
        return [inner.add("formula", [values[0], two], tree=call_formula("mul"))]

    def write(inner: Builder, values: Sequence[int]) -> Sequence[int]:
        assert isinstance(inner, GraphBuilder)
        total = inner.add("reduce", [values[1]], axes=(0,), function="sum")
        none = inner.constant(np.array(0, np.float32))
        positive = inner.add("formula", [total, none], tree=call_formula("gt"))
        same = inner.body([f32(3)], lambda _, operands: operands)
        grown = inner.body([f32(3)], twice)
        return [inner.add("cond", [positive, values[0]], if_false=same, if_true=grown)]

    body = builder.body([f32(3), f32(3)], write)
    inputs = [start, steps]
    return builder.build([builder.add("scan", inputs, body=body, carries=1, length=4, slices=1)])


def identity() -> Graph:
    builder = GraphBuilder()
    builder.input(f32())
    return builder.build([builder.input(TensorSpec("bool", (0, 7)))])


GRAPHS: dict[str, Callable[[], Graph]] = {
    "identity": identity,
    "matmul": lambda: one("matmul", f32(256, 512), f32(128, 512), transpose_b=True),
    "batched_int_matmul": lambda: one(
        "matmul", TensorSpec("int64", (3, 4, 5)), TensorSpec("int64", (3, 5, 2))
    ),
    "softmax": lambda: softmax(32, 100),
    "sum": lambda: one("reduce", f32(10, 20, 30), axes=(0, 2), function="sum"),
    "topk": lambda: one("topk", f32(5, 90), axis=1, k=10),
    "argmin": lambda: one("reduce_arg", TensorSpec("int32", (5, 9)), axis=0, function="argmin"),
    "slice": lambda: one("slice", f32(9, 9), start=(0, 3), stop=(9, 9), step=(2, 3)),
    "gather": lambda: one("gather", f32(1000, 64), TensorSpec("int32", (128,)), axis=0),
    "cast": lambda: one("cast", TensorSpec("bool", ()), dtype="int64"),
    "concat": lambda: one("concat", f32(2, 3), f32(2, 0), f32(2, 1), axis=1),
    "constants": with_constants,
    "looped": looped,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_golden_bytes_and_hashes(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    graph = GRAPHS[name]()
    assert encode(graph).hex() == golden[name]["bytes"]
    assert graph_hash(graph) == golden[name]["hash"]
    assert decode(bytes.fromhex(golden[name]["bytes"])) == graph


def test_golden_has_no_other_graphs() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(GRAPHS)


@settings(max_examples=100, deadline=None)
@given(graph=graphs())
def test_round_trip(graph: Graph) -> None:
    data = encode(graph)
    assert decode(data) == graph
    assert encode(decode(data)) == data


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_mutated_bytes_decode_canonically_or_raise_a_graph_error(data: st.DataObject) -> None:
    raw = bytearray(encode(GRAPHS[data.draw(st.sampled_from(sorted(GRAPHS)))]()))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                raw[place] = data.draw(st.integers(0, 255))
            case 1:
                raw[place] ^= 1 << data.draw(st.integers(0, 7))
            case 2:
                raw.insert(place, data.draw(st.integers(0, 255)))
            case 3 if len(raw) > 1:
                del raw[place]
    try:
        graph = decode(bytes(raw))
    except GraphError:
        return
    assert encode(graph) == bytes(raw)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=64))
def test_any_bytes_raise_nothing_but_graph_errors(raw: bytes) -> None:
    for data in (raw, b"gpgG\x01" + raw):
        try:
            graph = decode(data)
        except GraphError:
            continue
        assert encode(graph) == data


def test_every_truncation_is_refused() -> None:
    data = encode(softmax(3, 4))
    for length in range(len(data)):
        with pytest.raises(GraphError):
            decode(data[:length])
    with pytest.raises(GraphError, match="bytes follow the end"):
        decode(data + b"\0")


def header(*rest: int) -> bytes:
    return b"gpgG" + bytes([FORMAT_VERSION, *rest])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "graph_bytes_malformed"),
        (b"nope\x01", "graph_bytes_malformed"),
        (b"gpgG\x02", "graph_bytes_malformed"),
        (header(0xFF, 0xFF, 0xFF, 0xFF, 0x0F), "over_limit"),  # 2^32 inputs
        (header(0x80, 0x00), "graph_bytes_malformed"),  # 0 in two bytes
        (header(*[0xFF] * 10, 0x01), "graph_bytes_malformed"),  # more than 64 bits
        (header(1, 9, 0), "graph_bytes_malformed"),  # dtype 9
        (header(1, 0, 9, *[1] * 9), "over_limit"),  # rank 9
        (header(1, 0, 2, *([0x80] * 5 + [0x10]) * 2, 0, 0, 1, 0), "over_limit"),  # 2^39 squared
        (header(0, 1, 0, 1, 0x81, 0x80, 0x10), "over_limit"),  # a constant of 1 MiB and 4 bytes
        (header(0, 0, 0, 0), "graph_malformed"),  # no outputs
        (header(0, 1, 3, 0, 2, 0, 1, 0), "graph_malformed"),  # a bool that is 2
        (header(1, 0, 0, 0, 1, 2, 0x68, 0x69, 1, 0, 1, 1), "unknown_operator"),
    ],
)
def test_bad_bytes_have_their_code(data: bytes, code: str) -> None:
    with pytest.raises(GraphError) as raised:
        decode(data)
    assert raised.value.code == code


def test_limits_hold_for_the_bytes_as_a_whole() -> None:
    data = encode(softmax(3, 4))
    with pytest.raises(GraphError, match="over_limit"):
        decode(data, GraphLimits(encoded_bytes=len(data) - 1))
    with pytest.raises(GraphError, match="over_limit"):
        decode(data, GraphLimits(nodes=3))
    assert decode(data, GraphLimits(encoded_bytes=len(data), nodes=4)) == softmax(3, 4)


def test_equal_programs_have_equal_hashes_and_others_do_not() -> None:
    assert graph_hash(softmax(3, 4)) == graph_hash(softmax(3, 4))
    hashes = {graph_hash(make()) for make in GRAPHS.values()}
    assert len(hashes) == len(GRAPHS)


def test_a_malformed_graph_is_not_encoded() -> None:
    with pytest.raises(GraphError, match="graph_malformed"):
        encode(Graph((f32(2),), (), (), (1,)))


def test_bodies_are_no_deeper_than_the_limit() -> None:
    builder = GraphBuilder()
    inner = builder.body([f32(2)], lambda _, values: values)

    def around(body: Graph, limits: GraphLimits) -> Graph:
        outer = GraphBuilder(limits)
        start = outer.input(f32(2))
        return outer.build([outer.add("scan", [start], body=body, carries=1, length=1)])

    wide = GraphLimits(depth=9)
    for _ in range(4):
        inner = around(inner, wide)
    assert decode(encode(inner)) == inner
    with pytest.raises(GraphError, match="over_limit"):
        encode(around(inner, wide))
    with pytest.raises(GraphError, match="over_limit"):
        decode(encode(inner), GraphLimits(depth=3))
