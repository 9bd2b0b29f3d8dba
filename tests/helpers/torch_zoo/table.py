"""The table that the other modules fill, and short words for their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["PROGRAMS", "chances", "ints", "module", "normal", "program"]

PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {}
"""By name: a module or a function, and its arguments."""

_GENERATOR = torch.Generator().manual_seed(3)


def program(name: str, *args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[name] = (function, args)
        return function

    return put


def module(name: str, one: torch.nn.Module, *args: Any, train: bool = False) -> None:
    PROGRAMS[name] = (one.train(train), args)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_GENERATOR)


def chances(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=_GENERATOR)


def ints(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=_GENERATOR)
