"""What graphs need of dtypes, by use, and the bits by which it is compared with what is there."""

from __future__ import annotations

import pytest

from app.engine.backends.card.table import EMITTERS
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.dtypes import (
    ARITHMETIC,
    COMMON,
    EVERY_DTYPE,
    RARE,
    Dtypes,
    in_class,
    needs_of,
    told,
)
from gpugoblin.graph.ir import Graph

__all__: list[str] = []


def graph_of(name: str, *specs: TensorSpec, **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs]
    return builder.build(builder.add_many(name, values, **attributes))


def test_a_cast_needs_both_dtypes_as_values_alone() -> None:
    needs = needs_of(graph_of("cast", TensorSpec("float32", (3,)), dtype="float64"))
    assert needs == Dtypes.of(("float32", "float64"), (), ())


def test_uses_are_told_apart() -> None:
    whole = TensorSpec("int8", (4, 4))
    assert needs_of(graph_of("matmul", whole, whole)).arithmetic == {"int8"}
    assert needs_of(graph_of("permute", whole, axes=(1, 0))).arithmetic == set()
    data, window = TensorSpec("int32", (1, 1, 5)), TensorSpec("int32", (1, 1, 2))
    ones = {"stride": (1,), "dilation": (1,), "low": (0,), "high": (0,), "between": (0,)}
    found = needs_of(graph_of("conv", data, window, groups=1, **ones))
    assert found.convolutions == {"int32"}
    assert found.arithmetic == set()


def test_a_composite_needs_what_it_is_made_of() -> None:
    needs = needs_of(graph_of("softmax", TensorSpec("float64", (2, 3)), axis=1))
    assert needs.has("arithmetic", "float64")
    assert not needs.has("values", "float32")


def test_formulas_are_looked_into() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2,)))
    draft = FormulaBuilder()
    wide = draft.call("sin", draft.cast(draft.input(0), "float64"))
    tree = draft.build(draft.cast(wide, "float32"))
    graph = builder.build([builder.add("formula", [value], tree=tree)])
    assert {spec.dtype for spec in graph.specs()} == {"float32"}
    assert needs_of(graph).values == {"float32", "float64"}


def test_what_not_every_engine_computes() -> None:
    square = TensorSpec("float32", (4, 4))
    assert not needs_of(graph_of("softmax", square, axis=1)).rare
    assert needs_of(graph_of("cholesky", square)).rare == {"cholesky"}
    common, whole = Dtypes.of(DTYPES, DTYPES, DTYPES), EVERY_DTYPE
    needed = needs_of(graph_of("cholesky", square)).mask()
    assert needed & ~common.mask()
    assert not needed & ~whole.mask()


def test_every_backend_has_what_is_common() -> None:
    names = {key.partition("@")[0] for key in (*EMITTERS, "formula@1", "reshape@1")}
    assert names == COMMON


def test_every_primitive_is_common_or_has_a_place_among_the_rare() -> None:
    assert {key.partition("@")[0] for key in PRIMITIVES} == COMMON | set(RARE)
    assert not COMMON & set(RARE)
    assert len(set(RARE)) == len(RARE)


def test_the_places_of_bits_are_kept_in_tables() -> None:
    """Whoever changes these has to give the tables of lab nodes a new version."""
    assert Dtypes(rare=frozenset({"cholesky"})).mask() == 1 << 42
    assert Dtypes(rare=frozenset({"while_loop"})).mask() == 1 << 56
    assert Dtypes(classes=frozenset({"exact"})).mask() == 1 << 36
    assert Dtypes(classes=frozenset({"int8"})).mask() == 1 << 41
    assert Dtypes.of(("float32",), ("float32",), ("float64",)).mask() == 1 | 1 << 12 | 1 << 33


def test_what_an_engine_says_of_itself() -> None:
    common = dict.fromkeys(COMMON, 1)
    words = (("float32",), (), ())
    assert told(*words, {}, ("exact",)) == Dtypes.of(*words, rare=RARE, classes=("exact",))
    some = told(*words, {**common, "qr": 1, "lu": 2, "of a later catalog": 1}, ("exact", "tf32"))
    assert some == Dtypes.of(*words, rare=("qr",), classes=("exact", "tf32"))
    for lost in ("formula", "matmul"):
        without = {name: 1 for name in common if name != lost}
        assert told(*words, without, CLASSES) == told(*words, {**common, lost: 2}, CLASSES)
        assert told(*words, without, CLASSES).mask() == 0


def test_classes_are_asked_for_where_they_make_a_difference() -> None:
    floats, whole = Dtypes.of(("float32",), (), ()).mask(), Dtypes.of(("int32",), (), ()).mask()
    assert in_class(whole, "exact") == whole
    assert in_class(floats, "exact") == floats | Dtypes(classes=frozenset({"exact"})).mask()
    for needs in (floats, whole):
        assert in_class(needs, "tf32") == needs | Dtypes(classes=frozenset({"tf32"})).mask()


def test_the_bits_say_what_is_missing() -> None:
    assert EVERY_DTYPE.mask().bit_length() <= 62
    assert EVERY_DTYPE.mask().bit_count() == 3 * len(DTYPES) + len(RARE) + len(CLASSES)
    singles = [
        Dtypes(**{use: frozenset({dtype})}).mask()
        for use in ("values", "arithmetic", "convolutions")
        for dtype in DTYPES
    ]
    singles += [Dtypes(rare=frozenset({name})).mask() for name in RARE]
    singles += [Dtypes(classes=frozenset({name})).mask() for name in CLASSES]
    assert len(set(singles)) == len(singles)
    assert sum(singles) == EVERY_DTYPE.mask()
    having, needs = Dtypes.of(("int8",), (), ()).mask(), Dtypes.of(("int8",), ("int8",), ()).mask()
    assert needs & ~having == Dtypes.of((), ("int8",), ()).mask()
    assert having & ~needs == 0


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_operators_of_arithmetic_are_in_the_catalog(name: str) -> None:
    from gpugoblin.catalog.registry import OPERATORS

    assert f"{name}@1" in OPERATORS
