"""Attributes of an operator: defaults, order and kinds.

Owns: turning what a caller gives into the canonical attributes of a node, and checking attributes
that came from elsewhere. Must not: know what an attribute means (that is `infer`).
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterable, Mapping
from typing import Final

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.spec import DTYPES, Attribute, AttrValue, Operator
from gpugoblin.errors import GraphError

__all__ = ["INT_MAX", "INT_MIN", "MAX_INTS", "check_attributes", "normalize_attributes"]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
MAX_INTS: Final = 64
"""No attribute of kind `ints` is longer."""

_DESCRIPTION: Final = {
    "int": "a 64-bit integer is wanted",
    "bool": "True or False is wanted",
    "ints": f"a tuple of at most {MAX_INTS} 64-bit integers is wanted",
    "dtype": "one of " + ", ".join(DTYPES) + " is wanted",
    "formula": "a Formula is wanted",
    "graph": "a Graph is wanted",
}


def normalize_attributes(
    operator: Operator, given: Mapping[str, object]
) -> tuple[tuple[str, AttrValue], ...]:
    """The canonical attributes: sorted by name, defaults filled in, plain Python types.

    Raises:
        GraphError: attribute_unknown, attribute_missing, attribute_invalid.
    """
    known = {attribute.name for attribute in operator.attributes}
    for name in given:
        if name not in known:
            raise GraphError("attribute_unknown", operator=operator.key, attribute=name)
    found: list[tuple[str, AttrValue]] = []
    for attribute in operator.attributes:
        value = given.get(attribute.name, attribute.default)
        if value is None:
            raise GraphError("attribute_missing", operator=operator.key, attribute=attribute.name)
        found.append((attribute.name, _checked(operator, attribute, _plain(attribute, value))))
    return tuple(found)


def check_attributes(operator: Operator, attributes: tuple[tuple[str, AttrValue], ...]) -> None:
    """Requires canonical attributes: exactly the declared ones, in order, of plain types.

    Raises:
        GraphError: graph_malformed, attribute_invalid.
    """
    if not isinstance(attributes, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in attributes
    ):
        raise GraphError(
            "graph_malformed", where=operator.key, reason="attributes are not a tuple of pairs"
        )
    if [name for name, _ in attributes] != [attribute.name for attribute in operator.attributes]:
        raise GraphError(
            "graph_malformed",
            where=operator.key,
            reason="attributes are not the declared ones in the declared order",
        )
    for attribute, (_, value) in zip(operator.attributes, attributes, strict=True):
        _checked(operator, attribute, value)


def _plain(attribute: Attribute, value: object) -> object:
    """Integer-like things become ints, sequences of them tuples; all else is left to the check."""
    try:
        if attribute.kind == "int" and not isinstance(value, bool):
            return python_operator.index(value)  # type: ignore[arg-type]
        if attribute.kind == "ints" and isinstance(value, Iterable) and not isinstance(value, str):
            return tuple(
                item if isinstance(item, bool) else python_operator.index(item) for item in value
            )
    except TypeError:
        return value
    return value


def _checked(operator: Operator, attribute: Attribute, value: object) -> AttrValue:
    valid = False
    match attribute.kind:
        case "int":
            valid = _is_int(value)
        case "bool":
            valid = type(value) is bool
        case "ints":
            valid = type(value) is tuple and len(value) <= MAX_INTS and all(map(_is_int, value))
        case "choice":
            valid = type(value) is str and value in attribute.choices
        case "dtype":
            valid = type(value) is str and value in DTYPES
        case "formula":
            valid = type(value) is Formula
        case "graph":
            valid = type(value) is Graph  # its rules are `graph.check`
    if valid:
        return value  # type: ignore[return-value]
    reason = _DESCRIPTION.get(attribute.kind) or f"one of {', '.join(attribute.choices)} is wanted"
    raise GraphError(
        "attribute_invalid",
        operator=operator.key,
        attribute=attribute.name,
        value=repr(value)[:80],
        reason=reason,
    )


def _is_int(value: object) -> bool:
    return type(value) is int and INT_MIN <= value <= INT_MAX
