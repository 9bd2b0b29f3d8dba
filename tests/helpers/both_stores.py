"""What tests of both stores compare: answers as plain values, and every row of every table."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import GoblinError
from server_stub.coordinator.schema import COLUMNS
from server_stub.coordinator.store_writer import Transaction

__all__ = ["address", "contents", "key", "plain"]

_NUMBERED = {"entry": "entry", "posting": "entry", "mail": "number"}


def key(number: int) -> Ed25519PrivateKey:
    """The key of a machine, a lab node or a person, by number."""
    return Ed25519PrivateKey.from_private_bytes(random.Random(number).randbytes(32))


def address(number: int) -> str:
    """Where that one connects from."""
    return f"192.0.2.{number + 1}"


def plain(answer: Any) -> Any:
    """An answer as values that can be compared; refusals that are returned by their code."""
    if isinstance(answer, GoblinError):
        return f"refused: {answer.code}"
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        fields = dataclasses.fields(answer)
        return {field.name: plain(getattr(answer, field.name)) for field in fields}
    if isinstance(answer, msgspec.Struct):
        return {name: plain(getattr(answer, name)) for name in answer.__struct_fields__}
    if isinstance(answer, (list, tuple)):
        return [plain(one) for one in answer]
    return answer


def contents(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, with its types; numbers given by the database by their order."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table, names in COLUMNS.items():
        rows = tx.rows(f"SELECT {', '.join(names)} FROM {table}")  # noqa: S608 - our words
        if table in _NUMBERED:
            place = names.index(_NUMBERED[table])
            order = {number: at for at, number in enumerate(sorted({row[place] for row in rows}))}
            rows = [(*row[:place], order[row[place]], *row[place + 1 :]) for row in rows]
        found[table] = sorted((tuple(map(_typed, row)) for row in rows), key=repr)
    return found


def _typed(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value
