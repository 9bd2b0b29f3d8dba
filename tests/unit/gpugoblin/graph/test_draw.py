"""A graph as a picture: well-formed, escaped, bounded."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.draw import MAX_DRAWN
from gpugoblin.graph.ir import Graph, Names, View

SVG = "{http://www.w3.org/2000/svg}"


def chain(count: int) -> Graph:
    builder = GraphBuilder()
    value = x = builder.input(TensorSpec("float32", (2,)))
    for _ in range(count):
        value = builder.add("formula", [value, x], tree=call_formula("sub"))
    return builder.build([value])


def test_boxes_and_arrows() -> None:
    view = View(chain(3), Names(inputs=("<a & b>",), lines={1: "run.py:1"}))
    picture = ElementTree.fromstring(view.svg())  # noqa: S314
    assert len(list(picture.iter(f"{SVG}rect"))) == 4
    assert len(list(picture.iter(f"{SVG}path"))) == 5
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert "<a & b>" in texts
    assert view._repr_svg_() == view.svg()
    rows = {rect.attrib["y"] for rect in picture.iter(f"{SVG}rect")}
    assert len(rows) == 4


def test_too_many_to_look_at() -> None:
    with pytest.raises(GraphError, match="over_limit"):
        View(chain(MAX_DRAWN)).svg()
