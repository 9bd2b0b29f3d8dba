"""The table from ATen operators to the functions that lower them.

Owns: registration, and the check that no operator is registered twice. A name without an overload
(`add`) serves all overloads that have no entry of their own (`add.Scalar`). What is in this table
is kept whole by the decompositions of the ladder. Must not: import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["TABLE", "Rule", "aten", "lookup", "register"]

Rule = Callable[..., Any]
"""(context, *arguments of the operator) -> its result: a value, a tuple of them, or a number."""

_Rule = TypeVar("_Rule", bound=Callable[..., Any])

TABLE: dict[str, Rule] = {}
"""Every registered ATen operator."""


def register(name: str, rule: Rule) -> None:
    """Adds one operator.

    Raises:
        LookupError: it is there already; a mistake of this package, found at import.
    """
    if name in TABLE:
        raise LookupError(f"aten.{name} has two lowerings")
    TABLE[name] = rule


def aten(*names: str) -> Callable[[_Rule], _Rule]:
    """Registers a function for the named operators."""

    def put(rule: _Rule) -> _Rule:
        for name in names:
            register(name, rule)
        return rule

    return put


def lookup(name: str) -> Rule | None:
    """The rule of `add.Tensor`: its own, or that of `add`. `select_copy` is `select`: a graph has
    no views, so all results are copies."""
    if name.rpartition(".")[0] in TABLE:
        return TABLE.get(name) or TABLE[name.rpartition(".")[0]]
    base, _, overload = name.partition(".")
    plain = base.removesuffix("_copy") if base not in TABLE else base
    return TABLE.get(f"{plain}.{overload}") or TABLE.get(plain)
