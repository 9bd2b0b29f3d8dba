"""The catalog: the closed list of operators, checked when it is imported.

Owns: which operators there are. The whole proof of each declaration is `prove`, run in tests. Must
not: import `gpugoblin.graph`; know any backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpugoblin import hashing
from gpugoblin.catalog.composites import (
    activation,
    attention,
    compacting,
    ctc,
    custom,
    distances,
    exponential,
    likelihood,
    linear,
    loss,
    norm,
    ranking,
    resampling,
    sampling,
    taking,
    windows,
)
from gpugoblin.catalog.primitives import PRIMITIVES, collect
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Operator
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS", "catalog_hash", "get", "operator_versions"]

_COMPOSITES: Final = (
    activation,
    attention,
    compacting,
    exponential,
    ctc,
    custom,
    distances,
    likelihood,
    linear,
    loss,
    norm,
    ranking,
    resampling,
    sampling,
    taking,
    windows,
)

OPERATORS: Final[Mapping[str, Operator]] = MappingProxyType(
    dict(
        sorted(
            {
                **PRIMITIVES,
                **collect(one for family in _COMPOSITES for one in family.OPERATORS),
            }.items()
        )
    )
)
"""Every operator by key, `matmul@1`."""

_NEWEST: Final[Mapping[str, int]] = MappingProxyType(
    {
        operator.name: operator.version
        for operator in sorted(OPERATORS.values(), key=lambda operator: operator.version)
    }
)


def get(name: str, version: int | None = None) -> Operator:
    """The operator `name`, in its newest version unless one is given.

    Raises:
        GraphError: unknown_operator.
    """
    found = None
    if isinstance(name, str):
        wanted = _NEWEST.get(name) if version is None else version
        found = OPERATORS.get(f"{name}@{wanted}")
    if found is None or found.name != name:
        label = str(name)[:40] if version is None else f"{str(name)[:40]}@{version}"
        raise GraphError("unknown_operator", operator=label)
    return found


def operator_versions() -> dict[str, int]:
    """The newest version of every operator, by name."""
    return dict(sorted(_NEWEST.items()))


def catalog_hash() -> str:
    """64 hexadecimal digits over all declarations: equal where two sides know the same catalog."""
    return _HASH


def _hash() -> str:
    parts: list[str] = []
    for operator in OPERATORS.values():
        parts.append(f"operator {operator.key} {operator.arity[0]} {operator.arity[1]}")
        for attribute in operator.attributes:
            default = "" if attribute.required else repr(attribute.default)
            choices = ",".join(attribute.choices)
            parts.append(f"attribute {attribute.name} {attribute.kind} {default} {choices}")
    parts.extend(f"scalar {name} {SCALARS[name].arity}" for name in sorted(SCALARS))
    return hashing.digest(hashing.CATALOG, "\n".join(parts).encode())


_HASH: Final = _hash()
