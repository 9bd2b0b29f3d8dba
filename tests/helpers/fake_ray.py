"""Ray's interface as the bridge uses it, in this process: machines, actors, references.

Owns: `FakeRay`. The actor is the real `Hand`, or what the test puts in its place. Its methods get
arguments that went through pickle, as Ray would have it.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

__all__ = ["FakeRay"]


class _Method:
    def __init__(self, ray: FakeRay, machine: str, name: str, bound: Callable[..., Any]) -> None:
        self._ray, self._machine, self._name, self._bound = ray, machine, name, bound

    def remote(self, *given: Any) -> asyncio.Task[Any]:
        self._ray.calls.append((self._machine, self._name, sum(map(_size, given))))
        copied = pickle.loads(pickle.dumps(given))  # noqa: S301 - the test's own
        return asyncio.ensure_future(self._call(copied))

    async def _call(self, given: tuple[Any, ...]) -> Any:
        if self._machine not in self._ray.machines:
            raise RuntimeError("The actor died unexpectedly before finishing this task.")
        answer = await self._bound(*given)
        if self._machine not in self._ray.machines:
            raise RuntimeError("The actor died unexpectedly before finishing this task.")
        return answer


class _Actor:
    def __init__(self, ray: FakeRay, machine: str, made: Any) -> None:
        self._ray, self._machine, self.made = ray, machine, made

    def __getattr__(self, name: str) -> _Method:
        return _Method(self._ray, self._machine, name, getattr(self.made, name))


class _Options:
    def __init__(self, ray: FakeRay, kind: Callable[..., Any], options: dict[str, Any]) -> None:
        self._ray, self._kind, self._options = ray, kind, options

    def options(self, **options: Any) -> _Options:
        return _Options(self._ray, self._kind, options)

    def remote(self, *given: Any) -> _Actor:
        machine = self._options["scheduling_strategy"]
        self._ray.started.append(self._options)
        actor = _Actor(self._ray, machine, self._kind(*given))
        self._ray.actors[machine] = actor
        return actor


class FakeRay:
    """The module `ray`. `machines` may change at any time; `reachable` False: the head died.

    Args:
        actor: what stands in for `Hand`.
    """

    def __init__(self, actor: Callable[..., Any] | None = None) -> None:
        self.machines: dict[str, dict[str, float]] = {}
        self.reachable = True
        self.calls: list[tuple[str, str, int]] = []
        self.started: list[dict[str, Any]] = []
        self.killed: list[Any] = []
        self.actors: dict[str, _Actor] = {}
        self._actor = actor

    def init(self, **_: Any) -> None:
        if not self.reachable:
            raise ConnectionError("no head\nThe head is not there.")

    def nodes(self) -> list[dict[str, Any]]:
        if not self.reachable:
            raise RuntimeError("Failed to connect to the head.")
        return [
            {"NodeID": name, "Alive": True, "Resources": resources}
            for name, resources in self.machines.items()
        ]

    def remote(self, kind: Callable[..., Any]) -> _Options:
        return _Options(self, self._actor or kind, {})

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


def _size(value: object) -> int:
    return len(value) if isinstance(value, (bytes, str)) else 0
