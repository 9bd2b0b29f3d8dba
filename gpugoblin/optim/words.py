"""Optimizers as plain words: how a training names its optimizer to the lab node.

Owns: the two directions. The words are the class and its numbers; nothing is imported or called by
a name that came from outside, only looked up in this list. Must not: build a graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gpugoblin.errors import GraphError
from gpugoblin.optim.adafactor import Adafactor
from gpugoblin.optim.adam import Adam, AdamW
from gpugoblin.optim.lion import Lion
from gpugoblin.optim.schedules import (
    Constant,
    Cosine,
    Exponential,
    OneCycle,
    Schedule,
    Stairs,
    Warmup,
)
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer

__all__ = ["optimizer_of", "words_of"]

_OPTIMIZERS: Final = MappingProxyType(
    {one.__name__: one for one in (Adafactor, Adam, AdamW, Lion, SGD)}
)
_SCHEDULES: Final = MappingProxyType(
    {one.__name__: one for one in (Constant, Cosine, Exponential, OneCycle, Stairs, Warmup)}
)
_DEPTH: Final = 4
"""Schedules inside of schedules."""


def words_of(given: Optimizer | Schedule) -> dict[str, Any]:
    """`{"kind": "AdamW", "rate": 0.001, ...}`; a schedule is such words again.

    Raises:
        GraphError: attribute_invalid, for an optimizer that is none of ours.
    """
    kind = type(given).__name__
    known = _OPTIMIZERS if isinstance(given, Optimizer) else _SCHEDULES
    if known.get(kind) is not type(given):
        raise _invalid(kind, "it is none of gpugoblin's")
    found: dict[str, Any] = {"kind": kind}
    for one in dataclasses.fields(given):
        value = getattr(given, one.name)
        found[one.name] = words_of(value) if isinstance(value, Schedule) else value
    return found


def optimizer_of(words: Mapping[str, Any]) -> Optimizer:
    """The optimizer of its words.

    Raises:
        GraphError: attribute_invalid.
    """
    found = _read(words, _OPTIMIZERS, _DEPTH)
    if not isinstance(found, Optimizer):
        raise _invalid(words.get("kind"), "it is no optimizer")
    return found


def _read(words: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> Any:
    kind = words.get("kind")
    made = known.get(kind) if isinstance(kind, str) else None
    if made is None or depth == 0:
        raise _invalid(kind, f"one of {', '.join(known)} is wanted")
    fields = {one.name: one.type for one in dataclasses.fields(made)}
    given: dict[str, Any] = {}
    for name, value in words.items():
        if name == "kind":
            continue
        if name not in fields:
            raise _invalid(kind, f"it has no {name!r}")
        if isinstance(value, Mapping):
            given[name] = _read(value, _SCHEDULES, depth - 1)
        elif isinstance(value, bool | int | float) or value is None:
            given[name] = value
        else:
            raise _invalid(kind, f"its {name} is a {type(value).__name__}")
    try:
        return made(**given)
    except TypeError as cause:
        raise _invalid(kind, str(cause)) from cause


def _invalid(kind: object, reason: str) -> GraphError:
    return GraphError(
        "attribute_invalid", operator="an optimizer", attribute="kind", value=kind, reason=reason
    )
