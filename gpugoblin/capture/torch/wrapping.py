"""The program as the ladder traces it: one module that returns a flat tuple of tensors.

Owns: that wrapper, and the names of its arguments and results. What a program returns beside
tensors (caches, configurations, None) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpugoblin.capture.torch.library import load_torch

__all__ = ["Program", "flat_tensors", "make_program", "named_tensors"]


@dataclass(frozen=True, slots=True)
class Program:
    """A module and the arguments it is traced with.

    Args:
        module: returns a tuple of tensors.
        prefix: what the wrapper puts before the names of parameters and buffers.
        tensors: the tensors among the arguments, by name, in order.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    prefix: str
    tensors: tuple[tuple[str, Any], ...]
    label: str

    def state(self) -> dict[str, Any]:
        """Parameters and buffers, by the researcher's names."""
        cut = len(self.prefix)
        pairs = (
            *self.module.named_parameters(remove_duplicate=False),
            *self.module.named_buffers(remove_duplicate=False),
        )
        return {name[cut:]: tensor for name, tensor in pairs}


def named_tensors(given: object, name: str = "", kind: type | None = None) -> list[tuple[str, Any]]:
    """Every tensor inside tuples, lists, dictionaries and data classes, with its path.

    Args:
        kind: torch.Tensor, for callers inside a trace, where nothing can be imported.
    """
    tensor: Any = load_torch().Tensor if kind is None else kind
    found: list[tuple[str, Any]] = []
    stack: list[tuple[str, Any]] = [(name, given)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, tensor):
            found.append((path or "0", value))
        else:
            stack.extend(reversed(list(_parts(path, value))))
    return found


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    dot = f"{path}." if path else ""
    if isinstance(value, Mapping):
        return [(f"{dot}{key}", part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f"{dot}{key}", getattr(value, key)) for key in value._fields]
    if isinstance(value, list | tuple):
        return [(f"{dot}{place}", part) for place, part in enumerate(value)]
    return []


def flat_tensors(given: object, kind: type | None = None) -> tuple[Any, ...]:
    return tuple(tensor for _, tensor in named_tensors(given, kind=kind))


def make_program(
    subject: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Program:
    """The wrapper around a module or a function."""
    torch = load_torch()
    kind: type = torch.Tensor
    given = dict(kwargs or {})

    class Flat(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        """Calls the program and keeps the tensors of its result."""

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *values: Any, **named: Any) -> tuple[Any, ...]:
            return flat_tensors(self.inner(*values, **named), kind)

    class Function(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        """A function as a module."""

        def __init__(self, call: Callable[..., Any]) -> None:
            super().__init__()
            self.call = call

        def forward(self, *values: Any, **named: Any) -> Any:
            return self.call(*values, **named)

    is_module = isinstance(subject, torch.nn.Module)
    inner = subject if is_module else Function(subject)
    flat = Flat(inner)
    flat.train(inner.training)
    tensors = [*_arguments(args), *named_tensors(given)]
    label = type(subject).__name__ if is_module else getattr(subject, "__name__", "the function")
    return Program(flat, tuple(args), given, "inner.", tuple(tensors), label)


def _arguments(args: Sequence[Any]) -> list[tuple[str, Any]]:
    return named_tensors({f"argument{place}": value for place, value in enumerate(args)})
