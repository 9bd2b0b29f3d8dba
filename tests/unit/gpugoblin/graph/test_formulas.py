"""The canonical form of one formula."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.building import tree
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.formulas import tree_hashes
from gpugoblin.graph.ir import Graph


def formula_of(graph: Graph) -> Formula:
    (node,) = graph.nodes
    found = node.attrs["tree"]
    assert isinstance(found, Formula)
    return found


def test_operands_are_read_before_they_are_spread_out() -> None:
    builder = GraphBuilder()
    x, row = (builder.input(TensorSpec("float32", shape)) for shape in ((3, 4), (4,)))
    wide = builder.add("broadcast", [builder.add("reshape", [row], shape=(1, 4))], shape=(3, 4))
    found = canonicalise(
        builder.build([builder.add("formula", [x, wide], tree=call_formula("sub"))])
    )
    assert found.nodes[0].inputs == (0, 1)


def test_the_shape_of_a_spread_operand_stays_where_it_counts() -> None:
    builder = GraphBuilder()
    row = builder.input(TensorSpec("float32", (4,)))
    wide = builder.add("broadcast", [row], shape=(3, 4))
    graph = builder.build([builder.add("formula", [wide, row], tree=call_formula("mul"))])
    assert canonicalise(graph).output_specs() == graph.output_specs()


def test_scalars_are_part_of_the_tree() -> None:
    builder = GraphBuilder()
    x, two = builder.input(TensorSpec("float32", (3,))), builder.constant(np.float32(2))
    graph = builder.build([builder.add("formula", [x, two], tree=call_formula("mul"))])
    found = canonicalise(graph)
    assert found.constants == ()
    assert {node.function for node in formula_of(found).nodes} == {"input", "const", "mul"}


def test_a_formula_that_is_an_operand_or_a_cast() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3,)))
    alone = tree(1, lambda build, a: a)
    cast = tree(1, lambda build, a: build.cast(a, "int32"))
    graph = builder.build([builder.add("formula", [x], tree=one) for one in (alone, cast)])
    assert [node.operator for node in canonicalise(graph).nodes] == ["cast"]


def test_hashes_know_only_what_is_computed() -> None:
    build = FormulaBuilder()
    x, y = build.input(0), build.input(1)
    for name, same in (("add", True), ("sub", False), ("max", False)):
        one, other = build.build(build.call(name, x, y)), build.build(build.call(name, y, x))
        names = [tree_hashes(found, [b"a", b"b"])[-1] for found in (one, other)]
        assert (names[0] == names[1]) == same


def test_what_has_no_effect_and_where_reshapes_stand() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (6,)))
    wide = builder.add("reshape", [x], shape=(2, 3))
    least = tree(1, lambda build, a: build.call("max", a, build.const("float32", -np.inf)))
    kept = builder.add("formula", [wide], tree=least)
    graph = builder.build([builder.add("formula", [kept], tree=call_formula("exp"))])
    assert [node.operator for node in canonicalise(graph).nodes] == ["formula", "reshape"]
    axis = builder.add("reshape", [x], shape=(1, 6, 1))
    other = builder.input(TensorSpec("float32", (2, 6, 4)))
    graph = builder.build([builder.add("formula", [axis, other], tree=call_formula("sub"))])
    assert canonicalise(graph).nodes[0].attrs["shape"] == (6, 1)
