"""The primitive operators: those that backends compute, and that composites are made of.

Owns: the table of them. Must not: know composites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gpugoblin.catalog.ops import (
    branching,
    cast,
    chance,
    convolution,
    determinants,
    factoring,
    formula,
    fourier,
    gather,
    grouped,
    iota,
    looping,
    matmul,
    movement,
    order,
    placing,
    pooling,
    reduce,
    repeating,
    scan,
    scatter,
    searching,
    sliding,
    solving,
    spectral,
)
from gpugoblin.catalog.prove import prove_declaration
from gpugoblin.catalog.spec import Operator
from gpugoblin.errors import GraphError

__all__ = ["PRIMITIVES", "collect", "primitive"]

_FAMILIES: Final = (
    formula,
    matmul,
    convolution,
    pooling,
    sliding,
    reduce,
    scan,
    order,
    searching,
    movement,
    placing,
    gather,
    scatter,
    iota,
    chance,
    cast,
    solving,
    factoring,
    determinants,
    spectral,
    fourier,
    branching,
    looping,
    repeating,
    grouped,
)


def collect(operators: Iterable[Operator]) -> Mapping[str, Operator]:
    """Operators by key, the declaration of each proven as far as that is cheap.

    Raises:
        LookupError: a declaration is wrong, or there twice.
    """
    collected: dict[str, Operator] = {}
    for operator in operators:
        if operator.key in collected:
            raise LookupError(f"{operator.key} is declared twice")
        prove_declaration(operator)
        collected[operator.key] = operator
    return MappingProxyType(dict(sorted(collected.items())))


PRIMITIVES: Final[Mapping[str, Operator]] = collect(
    operator for family in _FAMILIES for operator in family.OPERATORS
)
"""Every primitive by key."""

_BY_NAME: Final = MappingProxyType({operator.name: operator for operator in PRIMITIVES.values()})


def primitive(name: str) -> Operator:
    """The newest version of a primitive.

    Raises:
        GraphError: unknown_operator.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise GraphError("unknown_operator", operator=name[:40])
    return found
