"""A graph for people, as a picture: SVG of the nodes in rows, operands above.

Owns: the layout (longest path from the inputs; a row's nodes stand below their operands) and the
SVG. Every text in it is escaped. Must not: draw more than a person can look at; larger graphs are
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from gpugoblin.errors import GraphError
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.graph.show import node_text

__all__ = ["MAX_DRAWN", "show_svg"]

MAX_DRAWN: Final = 2000
_WIDTH, _HEIGHT, _GAP, _ROW = 190, 40, 20, 76
_CHARACTERS: Final = 28
_COLORS: Final = {"input": "#dbe9f6", "constant": "#eeeeee", "output": "#d9f0d3"}


def show_svg(graph: Graph, names: Names | None = None) -> str:
    """The picture, as the text of an SVG file. Hovering over a box gives its whole line.

    Raises:
        GraphError: over_limit, for more than 2,000 boxes.
    """
    boxes, arrows = _boxes(graph, names or Names())
    if len(boxes) > MAX_DRAWN:
        raise GraphError(
            "over_limit", where="a picture", what="boxes", value=len(boxes), limit=MAX_DRAWN
        )
    rows = _rows(len(boxes), arrows)
    places = _places(rows, arrows)
    width = max(x for x, _ in places.values()) + _WIDTH + _GAP
    height = max(y for _, y in places.values()) + _HEIGHT + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11">'
    ]
    for above, below in arrows:
        (x1, y1), (x2, y2) = places[above], places[below]
        start, end = (x1 + _WIDTH / 2, y1 + _HEIGHT), (x2 + _WIDTH / 2, y2)
        middle = (start[1] + end[1]) / 2
        parts.append(
            f'<path d="M{start[0]:.0f} {start[1]:.0f} C{start[0]:.0f} {middle:.0f} {end[0]:.0f} '
            f'{middle:.0f} {end[0]:.0f} {end[1]:.0f}" fill="none" stroke="#999999"/>'
        )
    for number, (kind, title, spec, whole) in enumerate(boxes):
        x, y = places[number]
        parts.append(
            f'<g><title>{escape(whole)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="4" fill="{_COLORS.get(kind, "#ffffff")}" stroke="#555555"/>'
            f'<text x="{x + 6:.0f}" y="{y + 16:.0f}">{escape(_cut(title))}</text>'
            f'<text x="{x + 6:.0f}" y="{y + 32:.0f}" fill="#666666">{escape(_cut(spec))}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _boxes(
    graph: Graph, names: Names
) -> tuple[list[tuple[str, str, str, str]], list[tuple[int, int]]]:
    """(kind, title, spec, whole line) of every box, and which is above which."""
    boxes: list[tuple[str, str, str, str]] = []
    owner: list[int] = []
    arrows: list[tuple[int, int]] = []
    for number, spec in enumerate(graph.inputs):
        label = names.inputs[number] if number < len(names.inputs) else f"input {number}"
        owner.append(len(boxes))
        boxes.append(("input", label, str(spec), label))
    for constant in graph.constants:
        owner.append(len(boxes))
        boxes.append(("constant", "constant", str(constant.spec), "constant"))
    outputs = set(graph.outputs)
    for first, node in graph.numbered_nodes():
        values = range(first, first + len(node.outputs))
        kind = "output" if outputs.intersection(values) else "node"
        text = node_text(node)
        title = text if node.operator == "formula" else node.operator
        arrows.extend((owner[value], len(boxes)) for value in dict.fromkeys(node.inputs))
        owner.extend([len(boxes)] * len(node.outputs))
        line = names.lines.get(first, "")
        whole = f"{text}\n{line}" if line else text
        boxes.append((kind, title, ", ".join(map(str, node.outputs)), whole))
    return boxes, arrows


def _rows(count: int, arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    depth = [0] * count
    for above, below in arrows:  # boxes stand in topological order, and so do arrows by their end
        depth[below] = max(depth[below], depth[above] + 1)
    rows: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for number, row in enumerate(depth):
        rows[row].append(number)
    return rows


def _places(
    rows: Sequence[Sequence[int]], arrows: Sequence[tuple[int, int]]
) -> dict[int, tuple[float, float]]:
    """Each box below the middle of its operands, as far as its row has room."""
    above: dict[int, list[int]] = {}
    for start, end in arrows:
        above.setdefault(end, []).append(start)
    places: dict[int, tuple[float, float]] = {}
    for row, numbers in enumerate(rows):
        wished = {
            number: sum(places[one][0] for one in above[number]) / len(above[number])
            if number in above
            else 0.0
            for number in numbers
        }
        free = float(_GAP)
        for number in sorted(numbers, key=lambda one: (wished[one], one)):
            x = max(free, wished[number])
            places[number] = (x, _GAP + row * _ROW)
            free = x + _WIDTH + _GAP
    return places


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 3] + "..."
