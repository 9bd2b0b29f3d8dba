"""Which dtypes, operators and numeric class a task asks of whoever computes it, and which ones an
engine has.

Owns: the three uses of a dtype, what a graph needs, the bits by which both are compared. Must not:
know any backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.registry import operator_versions
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node

__all__ = [
    "ARITHMETIC",
    "COMMON",
    "EVERY_DTYPE",
    "RARE",
    "Dtypes",
    "Use",
    "class_bits",
    "in_class",
    "needs_of",
    "told",
    "use_of",
]

Use = Literal["values", "arithmetic", "convolutions"]

ARITHMETIC: Final = frozenset(
    {"matmul", "reduce", "reduce_arg", "scan_reduce", "scatter", "searchsorted", "topk"}
)
"""Operators that do more with numbers than to move them; what formulas do counts as a value."""

_COMMON: Final = """
broadcast cast concat conv flip fold formula gather iota matmul pad permute pool random reduce
reduce_arg reshape scan_reduce scatter searchsorted slice topk update_slice window
"""
COMMON: Final = frozenset(_COMMON.split())
"""Primitives that every engine has; one without them is given nothing."""

RARE: Final = (
    "cholesky", "cond", "det", "eigh", "fft", "grouped_matmul", "grouped_outer", "lu", "qr", "scan",
    "slogdet", "solve", "svd", "triangular_solve", "while_loop",
)  # fmt: skip
"""The other primitives (linear algebra, Fourier transforms, loops), which an engine has or has not.
Their places are bits in the tables of lab nodes: names are added at the end, none is taken out."""

_FLOATS: Final = ("float32", "float16", "bfloat16", "float64")
_PLACES: Final = {dtype: place for place, dtype in enumerate(DTYPES)}
_WIDTH: Final = 12
"""Bits for each of the three uses: more than there are dtypes."""
_CLASSES_AT: Final = 3 * _WIDTH
_RARE_AT: Final = _CLASSES_AT + 6
"""Then 20 bits are left below 2^62."""


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Dtypes by what is done with them; what a graph needs, or what an engine has. Besides, what
    not every engine has of operators and classes.

    Args:
        values: stored, moved, computed with element by element.
        arithmetic: operands of the operators of `ARITHMETIC`.
        convolutions: operands of `conv`.
        rare: operators of `RARE`.
        classes: numeric classes. A graph needs none by itself: see `in_class`.
    """

    values: frozenset[str] = frozenset()
    arithmetic: frozenset[str] = frozenset()
    convolutions: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        values: Iterable[str],
        arithmetic: Iterable[str],
        convolutions: Iterable[str],
        *,
        rare: Iterable[str] = (),
        classes: Iterable[str] = (),
    ) -> Dtypes:
        """By itself with no operator of `RARE`, and no class."""
        return cls(
            frozenset(values),
            frozenset(arithmetic),
            frozenset(convolutions),
            frozenset(rare),
            frozenset(classes),
        )

    def has(self, use: Use, dtype: str) -> bool:
        found: frozenset[str] = getattr(self, use)
        return dtype in found

    def mask(self) -> int:
        """A bit for each use of each dtype, each class and each rare operator, below 2^62;
        `needs & ~has` is what is missing."""
        uses = (self.values, self.arithmetic, self.convolutions)
        bits = sum(
            1 << (number * _WIDTH + _PLACES[dtype])
            for number, dtypes in enumerate(uses)
            for dtype in dtypes
        )
        bits |= sum(1 << (_CLASSES_AT + CLASSES.index(one)) for one in self.classes)
        return bits | sum(1 << (_RARE_AT + RARE.index(name)) for name in self.rare)


def class_bits(numeric_class: str) -> tuple[int, int]:
    """Which graphs need an engine's word that it serves a class, and its bit.

    Whole numbers are exact everywhere, so class `exact` is asked for where there are floats.

    Returns:
        (graphs whose mask has one of these bits, the bit that they need besides).
    """
    asking = _FLOATS if numeric_class == "exact" else tuple(DTYPES)
    return Dtypes(frozenset(asking)).mask(), 1 << (_CLASSES_AT + CLASSES.index(numeric_class))


def in_class(needs: int, numeric_class: str) -> int:
    """What tasks of a graph with such needs (`Dtypes.mask`) need in this class."""
    asking, bit = class_bits(numeric_class)
    return needs | bit if needs & asking else needs


def told(
    values: Iterable[str],
    arithmetic: Iterable[str],
    convolutions: Iterable[str],
    operators: Mapping[str, int],
    classes: Iterable[str],
) -> Dtypes:
    """What an engine has by its own words, without what this catalog does not know.

    Args:
        operators: versions by name; empty for an engine that has the whole catalog.
    """
    here = operator_versions()
    if not operators:
        return Dtypes.of(values, arithmetic, convolutions, rare=RARE, classes=classes)
    same = {name for name, version in operators.items() if here.get(name) == version}
    if not same >= COMMON:
        return Dtypes()
    rare = [name for name in RARE if name in same]
    return Dtypes.of(values, arithmetic, convolutions, rare=rare, classes=classes)


EVERY_DTYPE: Final = Dtypes.of(DTYPES, DTYPES, DTYPES, rare=RARE, classes=CLASSES)
"""What the processor has."""


def use_of(node: Node, specs: Sequence[TensorSpec]) -> tuple[Use, str]:
    """What a primitive does with the dtype of its first operand.

    Args:
        specs: of all values of the graph.
    """
    dtype = specs[node.inputs[0]].dtype if node.inputs else node.outputs[0].dtype
    if node.operator == "conv":
        return "convolutions", dtype
    moves = node.operator == "scatter" and node.attrs["function"] == "set"
    if node.operator in ARITHMETIC and not moves:
        return "arithmetic", dtype
    return "values", dtype


def needs_of(graph: Graph) -> Dtypes:
    """What a graph needs where every composite runs as its decomposition, loops included.

    Args:
        graph: one that passes `check`.
    """
    found: dict[Use, set[str]] = {"values": set(), "arithmetic": set(), "convolutions": set()}
    operators: set[str] = set()
    _collect(graph, found, operators)
    return Dtypes.of(
        found["values"],
        found["arithmetic"],
        found["convolutions"],
        rare=operators - COMMON,
    )


def _collect(graph: Graph, found: dict[Use, set[str]], operators: set[str]) -> None:
    graph = expand(graph).graph
    specs = graph.specs()
    found["values"].update(spec.dtype for spec in specs)
    for node in graph.nodes:
        operators.add(node.operator)
        use, dtype = use_of(node, specs)
        found[use].add(dtype)
        tree = node.attrs.get("tree")
        if isinstance(tree, Formula):
            found["values"].update(step.dtype for step in tree.nodes if step.dtype)
        for body in node.bodies():
            _collect(body, found, operators)
