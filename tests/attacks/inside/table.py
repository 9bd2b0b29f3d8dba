"""One row for each attack: its name, what must stop it, and the answer it must get.

Owns: the table and its decorator. Imported on both sides: outside for the list, inside to act.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ROWS", "Outcome", "Row", "attack", "bounded", "killer", "opened", "read", "refused"]

Kind = Literal["refused", "killed", "bounded", "read"]
Layer = Literal["namespaces", "mounts", "landlock", "seccomp", "stage two", "limits", "seals", "-"]
Bait = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What happened: `kind` is one of the table's or `opened`, which no row ever expects."""

    kind: str
    answer: str = ""
    figure: int = 0


@dataclass(frozen=True)
class Row:
    """An attack.

    Args:
        expected: what must become of it. layer: the wall that is expected to stop it first.
        answers: names of the errors that count as this wall's answer.
        limit: for `bounded`, the highest figure allowed.
        control: it is harmless without walls and must succeed there, else it proves nothing.
        alone: it needs an engine of its own.
    """

    name: str
    run: Callable[[Bait], Outcome]
    expected: Kind
    layer: Layer
    answers: tuple[str, ...] = ()
    limit: int = 0
    control: bool = False
    alone: bool = False


ROWS: dict[str, Row] = {}


def _add(row: Row) -> None:
    if row.name in ROWS:
        raise LookupError(f"two attacks are called {row.name}")
    ROWS[row.name] = row


def attack(
    layer: Layer,
    *answers: str,
    expected: Kind = "refused",
    limit: int = 0,
    control: bool = False,
    alone: bool = False,
) -> Callable[[Callable[[Bait], Outcome]], Callable[[Bait], Outcome]]:
    """Declares the function below as an attack under its own name."""

    def register(run: Callable[[Bait], Outcome]) -> Callable[[Bait], Outcome]:
        name = run.__name__
        _add(Row(name, run, expected, layer, answers, limit, control, alone))
        return run

    return register


def killer(name: str, run: Callable[[Bait], Outcome], control: bool = False) -> None:
    """Declares an attack that must end the process."""
    _add(Row(name, run, "killed", "seccomp", control=control, alone=True))


def refused(number: int) -> Outcome:
    """The kernel said no."""
    return Outcome("refused", errno.errorcode.get(number, str(number)))


def opened(answer: object = "") -> Outcome:
    """It worked."""
    return Outcome("opened", str(answer)[:200])


def bounded(figure: int, answer: str = "") -> Outcome:
    """It worked until something stopped it at `figure`."""
    return Outcome("bounded", answer, figure)


def read(answer: str) -> Outcome:
    """A harmless thing was read."""
    return Outcome("read", answer[:3000])
